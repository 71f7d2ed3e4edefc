// Single numbers of attention's operands, whatever their format.
#pragma once

#include "kernels/attention_call.cuh"
#include "kernels/vectors.cuh"

namespace zt::kernels {

__device__ inline float read(const HeadRows& x, int head, int head_size, std::int64_t row, int column) {
  const std::int64_t at = row * x.stride + std::int64_t{head} * head_size + column;
  if (x.dtype == Dtype::bf16) return widened(static_cast<const __nv_bfloat16*>(x.data)[at]);
  if (x.dtype == Dtype::f16) return widened(static_cast<const __half*>(x.data)[at]);
  return static_cast<const float*>(x.data)[at];
}

__device__ inline void write(const HeadRows& x, int head, int head_size, std::int64_t row, int column,
                             float value) {
  const std::int64_t at = row * x.stride + std::int64_t{head} * head_size + column;
  if (x.dtype == Dtype::bf16)
    static_cast<__nv_bfloat16*>(x.data)[at] = narrowed<__nv_bfloat16>(value);
  else if (x.dtype == Dtype::f16)
    static_cast<__half*>(x.data)[at] = narrowed<__half>(value);
  else
    static_cast<float*>(x.data)[at] = value;
}

// NaN where either is: a score that is no number must reach the result.
__device__ inline float larger(float x, float y) { return x > y || x != x ? x : y; }

}  // namespace zt::kernels
