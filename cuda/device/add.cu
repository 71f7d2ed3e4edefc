#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "device/add.h"
#include "device/stream.h"

namespace zt::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

__global__ void __launch_bounds__(kThreads)
    add_f32(float* __restrict__ sum, const float* __restrict__ more, std::int64_t quads, std::int64_t count) {
  const std::int64_t first = std::int64_t(blockIdx.x) * kThreads + threadIdx.x,
                     step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = first; i < quads; i += step) {
    float4 s = reinterpret_cast<float4*>(sum)[i];
    const float4 m = reinterpret_cast<const float4*>(more)[i];
    s.x += m.x, s.y += m.y, s.z += m.z, s.w += m.w;
    reinterpret_cast<float4*>(sum)[i] = s;
  }
  for (std::int64_t i = 4 * quads + first; i < count; i += step) sum[i] += more[i];
}

__device__ std::uint32_t added(std::uint32_t pair, float low, float high) {
  const float2 before = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  const __nv_bfloat162 after = __floats2bfloat162_rn(before.x + low, before.y + high);
  return *reinterpret_cast<const std::uint32_t*>(&after);
}

__global__ void __launch_bounds__(kThreads)
    add_bf16(__nv_bfloat16* __restrict__ sum, const float* __restrict__ more, std::int64_t quads,
             std::int64_t count) {
  const std::int64_t first = std::int64_t(blockIdx.x) * kThreads + threadIdx.x,
                     step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = first; i < quads; i += step) {
    uint2 s = reinterpret_cast<uint2*>(sum)[i];
    const float4 m = reinterpret_cast<const float4*>(more)[i];
    s.x = added(s.x, m.x, m.y), s.y = added(s.y, m.z, m.w);
    reinterpret_cast<uint2*>(sum)[i] = s;
  }
  for (std::int64_t i = 4 * quads + first; i < count; i += step)
    sum[i] = __float2bfloat16_rn(__bfloat162float(sum[i]) + more[i]);
}

bool aligned(const void* p, std::uintptr_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

}  // namespace

void add_on_stream(Dtype dtype, void* sum, const float* more, std::int64_t count, cudaStream_t stream) {
  const std::int64_t quads =
      aligned(sum, 4 * std::uintptr_t(size_of(dtype))) && aligned(more, 16) ? count / 4 : 0;
  const std::int64_t wanted = quads > 0 ? quads : count;
  const auto blocks = unsigned(std::clamp<std::int64_t>((wanted + kThreads - 1) / kThreads, 1, kMostBlocks));
  if (dtype == Dtype::f32) {
    add_f32<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(sum), more, quads, count);
  } else if (dtype == Dtype::bf16) {
    add_bf16<<<blocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(sum), more, quads, count);
  } else {
    throw Error(Blame::bug, "gradients are float32 or bfloat16");
  }
  check(cudaGetLastError(), "cannot start the kernel that adds gradients");
}

}  // namespace zt::cuda
