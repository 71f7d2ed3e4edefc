#include "kernels/reduce.cuh"

namespace zt::kernels {
namespace {

constexpr int kDown = 32;  // partial sums added at once, one in each row of a block

__global__ void __launch_bounds__(kWarp* kDown)
    sum_parts(const float* parts_PD, const std::int64_t parts, const std::int64_t stride,
              const std::int64_t D, float* sum_D) {
  __shared__ float sums[kDown][kWarp + 1];
  const int column = int(threadIdx.x), first = int(threadIdx.y);
  const std::int64_t d = std::int64_t{blockIdx.x} * kWarp + column;
  float sum = 0.f;
  if (d < D) {
#pragma unroll 4
    for (std::int64_t p = first; p < parts; p += kDown) sum += parts_PD[p * stride + d];
  }
  sums[first][column] = sum;
  __syncthreads();
  // Row r of the block adds up column r.
  const float total = warp_sum(sums[column][first]);
  const std::int64_t mine = std::int64_t{blockIdx.x} * kWarp + first;
  if (column == 0 && mine < D) sum_D[mine] += total;
}

}  // namespace

void add_parts(const char* kernel, const float* parts_PD, std::int64_t parts, std::int64_t stride,
               std::int64_t D, float* sum_D) {
  if (parts == 0 || D == 0) return;
  sum_parts<<<unsigned((D + kWarp - 1) / kWarp), dim3(kWarp, kDown), 0, cuda::current_stream()>>>(
      parts_PD, parts, stride, D, sum_D);
  cuda::check(cudaGetLastError(), kernel);
}

}  // namespace zt::kernels
