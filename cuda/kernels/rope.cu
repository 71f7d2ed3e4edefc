#include "kernels/cuda_kernels.h"
#include "kernels/elementwise.cuh"
#include "kernels/rope.h"

namespace zt::kernels {
namespace {

// Columns are those of the lower halves of all heads: column c is feature c % half of head c / half.
template <typename T>
struct RopeOp {
  DeviceRows<T> x;
  const std::int32_t* positions;
  DeviceRows<const float> cosines, sines;
  std::uint32_t half;
  float sign;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    const std::uint32_t head = std::uint32_t(col) / half, i = std::uint32_t(col) % half;
    const std::int64_t position = positions[row];
    T* const at = x.at(row, std::int64_t{head} * 2 * half + i);
    float low[kVec], high[kVec], c[kVec], s[kVec];
    load(at, count, low);
    load(at + half, count, high);
    load(cosines.at(position, i), count, c);
    load(sines.at(position, i), count, s);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float l = low[j], h = high[j], turn = sign * s[j];
      low[j] = l * c[j] - h * turn;
      high[j] = h * c[j] + l * turn;
    }
    store(at, count, low);
    store(at + half, count, high);
  }
};

}  // namespace

void CudaKernels::rope(const Rope& a) {
  require(a.head_size > 0 && a.head_size % 2 == 0 && a.x_NHd.cols % a.head_size == 0, "rope",
          "head_size must be even and divide the columns of x");
  require(is_vector(a.positions_N, a.x_NHd.rows), "rope", "needs one position for each row of x");
  require(a.cos_Pd2.cols == a.head_size / 2 && has_shape(a.sin_Pd2, a.cos_Pd2.rows, a.cos_Pd2.cols), "rope",
          "tables of cos and sin need head_size / 2 columns");
  with_device_type(a.x_NHd.dtype, "rope", [&](auto type) {
    using T = decltype(type);
    using Table = DeviceRows<const float>;
    constexpr int kVec = kWidest<T>;
    const int half = a.head_size / 2;
    const RopeOp<T> op{DeviceRows<T>(a.x_NHd), a.positions_N.as<const std::int32_t>(),
                       Table(a.cos_Pd2),       Table(a.sin_Pd2),
                       std::uint32_t(half),    a.inverse ? -1.f : 1.f};
    const bool aligned = half % kVec == 0 && all_aligned({a.x_NHd, a.cos_Pd2, a.sin_Pd2}, kVec);
    launch_rows<kVec>("rope", op, a.x_NHd.rows, a.x_NHd.cols / 2, aligned);
  });
}

}  // namespace zt::kernels
