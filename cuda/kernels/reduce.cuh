// Sums over a warp, a block, and over rows of partial sums; each in one fixed order.
#pragma once

#include "device/stream.h"
#include "kernels/vectors.cuh"

namespace zt::kernels {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ inline double warp_sum(double x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// The sum over a block of whole warps, in every thread. `spare` is shared memory for one number a warp; another
// call may use the same.
template <typename T>
__device__ T block_sum(T x, T* spare) {
  const int lane = int(threadIdx.x) % kWarp, warps = int(blockDim.x) / kWarp;
  x = warp_sum(x);
  __syncthreads();  // the last call's readers are done
  if (lane == 0) spare[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? spare[lane] : T{});
}

// sum_D += the rows of parts_PD, in order of part % 32, then of part. One block for each 32 columns.
void add_parts(const char* kernel, const float* parts_PD, std::int64_t parts, std::int64_t stride,
               std::int64_t D, float* sum_D);

}  // namespace zt::kernels
