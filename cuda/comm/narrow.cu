#include <cuda_bf16.h>

#include <algorithm>

#include "comm/narrow.h"
#include "device/stream.h"

namespace zt::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

// A row of the grid is a rank.
__global__ void __launch_bounds__(kThreads)
    pack_bf16(const float* __restrict__ whole_RS, std::int64_t slice, std::int64_t first, std::int64_t count,
              __nv_bfloat16* __restrict__ packed_RC) {
  const float* const from = whole_RS + blockIdx.y * slice + first;
  __nv_bfloat16* const to = packed_RC + blockIdx.y * count;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += std::int64_t(gridDim.x) * kThreads)
    to[i] = __float2bfloat16_rn(from[i]);
}

__global__ void __launch_bounds__(kThreads)
    sum_bf16(const __nv_bfloat16* __restrict__ parts_RC, std::int64_t count, int ranks,
             float* __restrict__ sum_C) {
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += std::int64_t(gridDim.x) * kThreads) {
    float sum = __bfloat162float(parts_RC[i]);
    for (int r = 1; r < ranks; ++r) sum += __bfloat162float(parts_RC[r * count + i]);
    sum_C[i] = sum;
  }
}

unsigned blocks_for(std::int64_t count) {
  return unsigned(std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

}  // namespace

void pack_on_stream(const float* whole_RS, std::int64_t slice, std::int64_t first, std::int64_t count,
                    int ranks, void* packed_RC, cudaStream_t stream) {
  pack_bf16<<<dim3(blocks_for(count), unsigned(ranks)), kThreads, 0, stream>>>(
      whole_RS, slice, first, count, static_cast<__nv_bfloat16*>(packed_RC));
  check(cudaGetLastError(), "cannot start the kernel that rounds gradients for their way");
}

void sum_on_stream(const void* parts_RC, std::int64_t count, int ranks, float* sum_C, cudaStream_t stream) {
  sum_bf16<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(parts_RC), count,
                                                       ranks, sum_C);
  check(cudaGetLastError(), "cannot start the kernel that adds what ranks sent");
}

}  // namespace zt::cuda
