#include "kernels/cuda_kernels.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.cuh"
#include "kernels/random.cuh"

namespace zt::kernels {
namespace {

template <typename T>
struct DropoutOp {
  DeviceRows<const T> x;
  DeviceRows<T> y;
  const std::int32_t* numbers;  // of rows; absent: the row itself
  std::int64_t first_row, cols;
  DeviceRandom random;
  float p, scale;
  bool accumulate;

  // kVec > 1: `cols` is a multiple of 4, so that each four elements share one counter.
  template <int kVec>
  __device__ void masks(std::uint64_t element, float (&factor)[kVec]) const {
    if constexpr (kVec == 1) {
      factor[0] = factor_of(random.word(element));
    } else {
#pragma unroll
      for (int i = 0; i < kVec; i += 4) {
        const uint4 w = random.words((element + std::uint64_t(i)) / 4);
        factor[i] = factor_of(w.x);
        factor[i + 1] = factor_of(w.y);
        factor[i + 2] = factor_of(w.z);
        factor[i + 3] = factor_of(w.w);
      }
    }
  }
  __device__ float factor_of(std::uint32_t word) const { return device_uniform(word) >= p ? scale : 0.f; }

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    const std::int64_t number = first_row + (numbers == nullptr ? row : std::int64_t{numbers[row]});
    float v[kVec], factor[kVec], before[kVec];
    load(x.at(row, col), count, v);
    if (accumulate) load(y.at(row, col), count, before);
    masks(std::uint64_t(number) * std::uint64_t(cols) + std::uint64_t(col), factor);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float kept = factor[i] > 0.f ? v[i] * factor[i] : 0.f;  // what is dropped may be no number
      v[i] = accumulate ? before[i] + kept : kept;
    }
    store(y.at(row, col), count, v);
  }
};

}  // namespace

void CudaKernels::dropout(const Dropout& a) {
  require(has_shape(a.y_ND, a.x_ND.rows, a.x_ND.cols) && a.y_ND.dtype == a.x_ND.dtype, "dropout",
          "shapes of x and y differ");
  require(!a.row_N || a.row_N.size() == a.x_ND.rows, "dropout", "not every row has a number");
  with_device_type(a.x_ND.dtype, "dropout", [&](auto type) {
    using T = decltype(type);
    constexpr int kVec = kWidest<T>;
    const std::int64_t D = a.x_ND.cols;
    const DropoutOp<T> op{DeviceRows<const T>(a.x_ND),
                          DeviceRows<T>(a.y_ND),
                          a.row_N ? a.row_N.as<const std::int32_t>() : nullptr,
                          a.first_row,
                          D,
                          DeviceRandom(a.random),
                          a.p,
                          1.f / (1.f - a.p),
                          a.accumulate};
    launch_rows<kVec>("dropout", op, a.x_ND.rows, D, D % 4 == 0 && all_aligned({a.x_ND, a.y_ND}, kVec));
  });
}

}  // namespace zt::kernels
