// What the attention kernels are told: device addresses, strides and masks; filled in attention.cu.
#pragma once

#include "device/stream.h"
#include "kernels/random.cuh"
#include "tensor/dtype.h"

namespace zt::kernels {

// Row r, column c of head h is element r * stride + h * head_size + c.
struct HeadRows {
  void* data = nullptr;
  std::int64_t stride = 0;
  Dtype dtype = Dtype::f32;

  template <typename T>
  __device__ T* head(int h, int head_size) const {
    return static_cast<T*>(data) + std::int64_t{h} * head_size;
  }
};

// Value of row r and head h is element h * stride + r.
struct HeadValues {
  float* data = nullptr;
  std::int64_t stride = 0;

  __device__ float* head(int h) const { return data + h * stride; }
};

struct AttentionDropout {
  float rate = 0.f, kept = 1.f;  // kept = 1 / (1 - rate)
  DeviceRandom random;
  std::int64_t first_row = 0;
  const std::int32_t* row_N = nullptr;
};

struct AttentionCall {
  HeadRows q, k, v, o, grad, dq, dk, dv;
  HeadValues lse, delta;
  const std::int32_t *begin_N = nullptr, *end_N = nullptr;
  int tokens = 0, heads = 0, kv_heads = 0, head_size = 0, window = 0;
  float scale = 1.f;
  AttentionDropout dropout;
};

// Tensor-core kernels of numbers of type T and head sizes up to D that are multiples of 8; rows start at multiples
// of 16 bytes. T is __nv_bfloat16 or __half; D is 64, 80, 96 or 128. One file each, because each takes long to
// compile.
template <typename T, int D>
void launch_attention(const AttentionCall& call, cudaStream_t stream);
template <typename T, int D>
void launch_attention_backward(const AttentionCall& call, cudaStream_t stream);

// Forward for sm_90a without dropout, head size 64 or 128 (attention_warpgroup.cuh).
template <typename T, int D>
void launch_attention_warpgroups(const AttentionCall& call, cudaStream_t stream);

// Backward under the same conditions (attention_warpgroup_backward.cuh).
template <typename T, int D>
void launch_attention_backward_warpgroups(const AttentionCall& call, cudaStream_t stream);

// delta_HN, the row sums of do * o, by 16-byte pieces.
template <typename T>
void launch_attention_delta(const AttentionCall& call, cudaStream_t stream);

template <typename Kernel>
void launch_with_shared(const char* name, Kernel* kernel, dim3 grid, int threads, int shared_bytes,
                        const AttentionCall& call, cudaStream_t stream) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes), name);
  kernel<<<grid, unsigned(threads), std::size_t(shared_bytes), stream>>>(call);
  cuda::check(cudaGetLastError(), name);
}

}  // namespace zt::kernels
