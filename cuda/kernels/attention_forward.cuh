// Forward attention on tensor cores (kernels/attention.h), for sm_80 and later.
//
// A block takes 128 queries of one head and walks over the keys they see, 32 or 64 at a time; each of its four warps
// keeps the sums of its own queries in registers. Keys are copied while values are used and the other way round
// (Dao 2023, FlashAttention-2, alg. 1).
#pragma once

#include "kernels/attention_mma.cuh"
#include "kernels/attention_sight.cuh"
#include "kernels/attention_softmax.cuh"

namespace zt::kernels {

template <int kAtoms, int kEights>
__device__ __forceinline__ void drop(float (&s)[kAtoms][kEights][4], const AttentionCall& a, int head,
                                     int row, int key) {
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Dropper dropper(a, head, row + m * 16 + half * 8);
#pragma unroll
      for (int n = 0; n < kEights; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          s[m][n][half * 2 + e] *= dropper.keeps(key + n * 8 + e) ? a.dropout.kept : 0.f;
    }
}

template <typename T, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, 2) attention_forward(const __grid_constant__ AttentionCall a) {
  using Tiles = ForwardTiles<D>;
  constexpr int kAtoms = Tiles::kAtoms, kQueries = Tiles::kQueries, kKeys = Tiles::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  T* const q_tile = reinterpret_cast<T*>(shared);
  T *const k_tile = q_tile + kQueries * kRow<D>, *const v_tile = k_tile + kKeys * kRow<D>;

  // The last queries of a document see the most keys; they go first.
  const int head = int(blockIdx.x), kv = head / (a.heads / a.kv_heads);
  const int first = int(gridDim.y - 1 - blockIdx.y) * kQueries, last = min(first + kQueries, a.tokens) - 1;
  const T* const q = a.q.head<T>(head, a.head_size);
  const T *const k = a.k.head<T>(kv, a.head_size), *const v = a.v.head<T>(kv, a.head_size);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int row = first + warp * 16 * kAtoms + lane / 4, column = lane % 4 * 2;

  int key = first_key(a, first) / kKeys * kKeys;
  const int low_of_last = first_key(a, last);
  int low[kAtoms][2];
  const auto find_low = [&] {
#pragma unroll
    for (int m = 0; m < kAtoms; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) low[m][half] = first_key(a, min(row + m * 16 + half * 8, last));
  };
  // The widest heads' products need the registers: there it is looked up where a tile is hidden in part, which is rare.
  constexpr bool kKeepLow = D <= 96;
  if constexpr (kKeepLow) find_low();

  start_tile<T, D, kQueries>(q_tile, q, a.q.stride, first, a.tokens, a.head_size);
  start_tile<T, D, kKeys>(k_tile, k, a.k.stride, key, a.tokens, a.head_size);
  commit_copies();
  const TileAddress<T, D> q_at(q_tile), k_at(k_tile), v_at(v_tile);
  Fragments<kAtoms, D> o;
  clear(o);
  SoftmaxRows<kAtoms> rows;
  for (; key <= last; key += kKeys) {
    wait_for_copies<0>();
    __syncthreads();
    start_tile<T, D, kKeys>(v_tile, v, a.v.stride, key, a.tokens, a.head_size);
    commit_copies();
    Fragments<kAtoms, kKeys> s;
    multiply_rows<T, D>(s, q_at, warp * kAtoms, k_at);
    wait_for_copies<0>();
    __syncthreads();
    if (key + kKeys <= last)
      start_tile<T, D, kKeys>(k_tile, k, a.k.stride, key + kKeys, a.tokens, a.head_size);
    commit_copies();
    if (key + kKeys - 1 > first || key < low_of_last) {
      if constexpr (!kKeepLow) find_low();
      hide(s, low, row, key + column);
    }
    float shrink[kAtoms][2];
    soften(s, rows, shrink, a.scale * kLog2OfE);
    scale_rows(o, shrink);
    if constexpr (kDropout) drop(s, a, head, row, key + column);
    multiply_columns<T, D>(o, s, v_at);
  }

#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_of_row(rows.sum[m][half]);
      const int i = row + m * 16 + half * 8;
      if (column == 0 && i < a.tokens) a.lse.head(head)[i] = a.scale * rows.most[m][half] + logf(sum);
      rows.sum[m][half] = sum;
    }
  store_rows<T, D>(
      o, [&](int m, int half) { return 1.f / rows.sum[m][half]; }, q_tile + warp * 16 * kAtoms * kRow<D>,
      a.o.head<T>(head, a.head_size), a.o.stride, first + warp * 16 * kAtoms, a.tokens, a.head_size);
}

template <typename T, int D>
void launch_attention(const AttentionCall& call, cudaStream_t stream) {
  using Tiles = ForwardTiles<D>;
  const dim3 grid(unsigned(call.heads), unsigned((call.tokens + Tiles::kQueries - 1) / Tiles::kQueries));
  const auto kernel =
      call.dropout.rate > 0.f ? attention_forward<T, D, true> : attention_forward<T, D, false>;
  launch_with_shared("attention", kernel, grid, kThreads, Tiles::kBytes, call, stream);
}

}  // namespace zt::kernels
