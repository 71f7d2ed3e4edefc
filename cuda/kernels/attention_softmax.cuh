// Scores in registers and the running softmax over them (Milakov & Gimelshein 2018, alg. 3).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

namespace zt::kernels {

constexpr float kLog2OfE = 1.44269504f;

// Two numbers rounded to T, the first in the lower half.
template <typename T>
__device__ __forceinline__ std::uint32_t rounded_pair(float low, float high);
template <>
__device__ __forceinline__ std::uint32_t rounded_pair<__nv_bfloat16>(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
__device__ __forceinline__ std::uint32_t rounded_pair<__half>(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// 2^x with results below 2^-126 as 0.
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Fragments of kAtoms x 16 rows and kColumns columns of f32: [atom][columns / 8][4]. Number e of a thread stands in
// row lane / 4 + e / 2 * 8 and column lane % 4 * 2 + e % 2.
template <int kAtoms, int kColumns>
using Fragments = float[kAtoms][kColumns / 8][4];

template <int kAtoms, int kEights>
__device__ __forceinline__ void clear(float (&c)[kAtoms][kEights][4]) {
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int n = 0; n < kEights; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] = 0.f;
}

// Running maximum and sum of each of a thread's rows; sums are this thread's columns alone until the end.
template <int kAtoms>
struct SoftmaxRows {
  float most[kAtoms][2], sum[kAtoms][2];

  __device__ __forceinline__ SoftmaxRows() {
#pragma unroll
    for (int m = 0; m < kAtoms; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) most[m][half] = -INFINITY, sum[m][half] = 0.f;
  }
};

// The largest value of four neighbouring threads, which share a row.
__device__ __forceinline__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Scores that a query doesn't see become -infinity. `row` and `key` are those of the thread's first number.
template <int kAtoms, int kEights>
__device__ __forceinline__ void hide(float (&s)[kAtoms][kEights][4], const int (&low)[kAtoms][2], int row,
                                     int key) {
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int n = 0; n < kEights; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = key + n * 8 + e % 2, i = row + m * 16 + e / 2 * 8;
        if (j > i || j < low[m][e / 2]) s[m][n][e] = -INFINITY;
      }
}

// Scores become probabilities relative to the new maxima, which `shrink` brings earlier sums to. A row that has seen no
// key yet has maximum -infinity, probabilities 0 and stays as it is.
template <int kAtoms, int kEights>
__device__ __forceinline__ void soften(float (&s)[kAtoms][kEights][4], SoftmaxRows<kAtoms>& rows,
                                       float (&shrink)[kAtoms][2], float scale_log2) {
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = rows.most[m][half];
#pragma unroll
      for (int n = 0; n < kEights; ++n) most = fmaxf(most, fmaxf(s[m][n][half * 2], s[m][n][half * 2 + 1]));
      most = largest_of_row(most);
      const float shift = most == -INFINITY ? 0.f : most * scale_log2;
      shrink[m][half] = exp2_of(rows.most[m][half] * scale_log2 - shift);
      float sum = rows.sum[m][half] * shrink[m][half];
#pragma unroll
      for (int n = 0; n < kEights; ++n)
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          s[m][n][e] = exp2_of(s[m][n][e] * scale_log2 - shift);
          sum += s[m][n][e];
        }
      rows.most[m][half] = most;
      rows.sum[m][half] = sum;
    }
}

template <int kAtoms, int kEights>
__device__ __forceinline__ void scale_rows(float (&o)[kAtoms][kEights][4], const float (&factor)[kAtoms][2]) {
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int n = 0; n < kEights; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[m][n][e] *= factor[m][e / 2];
}

}  // namespace zt::kernels
