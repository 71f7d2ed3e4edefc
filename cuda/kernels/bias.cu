#include "base/align.h"
#include "kernels/bias.h"
#include "kernels/elementwise.cuh"
#include "kernels/reduce.cuh"

namespace zt::kernels {
namespace {

template <typename B>
struct BiasOp {
  const B* b;
  DeviceRows<float> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float more[kVec], v[kVec];
    load(b + col, count, more);
    load(static_cast<const float*>(y.at(row, col)), count, v);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] += more[i];
    store(y.at(row, col), count, v);
  }
};

constexpr int kDown = 8;                  // rows of threads of a block
constexpr std::int64_t kLeastRows = 64;   // of a part
constexpr std::int64_t kMostParts = 128;  // rows of partial sums

// One part's sums for the columns of a block: a warp sums every 8th row of the part, then each thread those of a column.
template <int kVec, typename T>
__global__ void __launch_bounds__(kWarp* kDown)
    column_parts(const DeviceRows<const T> x, const std::int64_t rows, const std::int64_t cols,
                 const std::int64_t each, float* parts_PO, const std::int64_t stride) {
  __shared__ float sums[kDown][kVec]
                       [kWarp + kWarp / kVec];  // so that no two banks meet when columns are added
  const int lane = int(threadIdx.x), down = int(threadIdx.y);
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarp * kVec, col = first + lane * kVec;
  const int count = int(max(std::int64_t{0}, min(std::int64_t{kVec}, cols - col)));
  const std::int64_t end = min(rows, (blockIdx.y + 1) * each);
  float sum[kVec] = {}, row[kVec];
  if (count > 0) {
#pragma unroll 4
    for (std::int64_t n = blockIdx.y * each + down; n < end; n += kDown) {
      load(x.at(n, col), count, row);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum[i] += row[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kVec; ++i) sums[down][i][lane] = sum[i];
  __syncthreads();
  const int mine = down * kWarp + lane;
  if (mine >= kWarp * kVec || first + mine >= cols) return;
  float total = 0.f;
#pragma unroll
  for (int w = 0; w < kDown; ++w) total += sums[w][mine % kVec][mine / kVec];
  parts_PO[blockIdx.y * stride + first + mine] = total;
}
static_assert(kDown >= 8, "each column of a block needs a thread");

template <int kVec, typename T>
void launch_column_sums(const View& x, float* sums_O, const CudaScratch& scratch) {
  const std::int64_t stride = round_up(x.cols, 8);
  const std::int64_t most = std::clamp<std::int64_t>(scratch.bytes / 4 / stride, 1, kMostParts);
  const std::int64_t each = std::max(kLeastRows, (x.rows + most - 1) / most);
  const std::int64_t parts = (x.rows + each - 1) / each;
  float* const parts_PO = scratch.first<float>(parts * stride, "linear_backward");
  const dim3 blocks(unsigned((x.cols + kWarp * kVec - 1) / (kWarp * kVec)), unsigned(parts));
  column_parts<kVec><<<blocks, dim3(kWarp, kDown), 0, cuda::current_stream()>>>(
      DeviceRows<const T>(x), x.rows, x.cols, each, parts_PO, stride);
  cuda::check(cudaGetLastError(), "linear_backward");
  add_parts("linear_backward", parts_PO, parts, stride, x.cols, sums_O);
}

}  // namespace

void add_bias(const View& b_O, const View& y_NO) {
  with_device_type(b_O.dtype, "linear", [&](auto type) {
    using B = decltype(type);
    constexpr int kVec = kWidest<B, float>;
    launch_rows<kVec>("linear", BiasOp<B>{static_cast<const B*>(b_O.data), DeviceRows<float>(y_NO)},
                      y_NO.rows, y_NO.cols, all_aligned({b_O, y_NO}, kVec));
  });
}

void add_column_sums(const View& dy_NO, const View& db_O, const CudaScratch& scratch) {
  if (dy_NO.rows == 0) return;
  with_device_type(dy_NO.dtype, "linear_backward", [&](auto type) {
    using T = decltype(type);
    constexpr int kVec = kWidest<T>;
    if (all_aligned({dy_NO}, kVec))
      launch_column_sums<kVec, T>(dy_NO, db_O.as<float>(), scratch);
    else
      launch_column_sums<1, T>(dy_NO, db_O.as<float>(), scratch);
  });
}

}  // namespace zt::kernels
