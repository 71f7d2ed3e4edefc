// Backward of attention on tensor cores, from the saved log-sum-exp (Dao 2023, section 3.1), for sm_80 and later:
//
//   p_ij = e^(scale q_i . k_j - lse_i)     delta_i = do_i . o_i     ds_ij = p_ij (f_ij do_i . v_j - delta_i)
//   dv_j = sum_i f_ij p_ij do_i    dk_j = scale sum_i ds_ij q_i    dq_i = scale sum_j ds_ij k_j
//
// f is dropout's factor (1 without). One kernel walks over queries for its keys and sums dk and dv, one over keys for
// its queries and sums dq; each makes p and ds anew. That costs two products in seven, but every sum has one owner
// and one order, so bits repeat. A warp owns the rows of its products' left operands, hence scores are transposed
// (keys down) in the first kernel: p and ds are then left operands as they stand, and never leave registers.
#pragma once

#include "kernels/attention_mma.cuh"
#include "kernels/attention_sight.cuh"

namespace zt::kernels {

// dk and dv of 64 keys of one key/value head.
template <typename T, int D, bool kDropout>
class KeyGradient {
 public:
  using Tiles = BackwardTiles<D>;
  static constexpr int kKeys = Tiles::kOwn, kQueries = Tiles::kOther;

  __device__ __forceinline__ KeyGradient(const AttentionCall& a, unsigned char* shared)
      : a_(a),
        kv_(int(blockIdx.x)),
        first_(int(blockIdx.y) * kKeys),
        warp_(int(threadIdx.x) / 32),
        row_(first_ + warp_ * 16 + int(threadIdx.x) % 32 / 4),
        column_(int(threadIdx.x) % 4 * 2),
        k_(reinterpret_cast<T*>(shared)),
        v_(k_ + Tiles::kOwnSize),
        stages_(v_ + Tiles::kOwnSize),
        values_(reinterpret_cast<float*>(shared + Tiles::kQueriesBytes)),
        walk_(a, first_, kKeys, kQueries) {}

  __device__ __forceinline__ void run() {
    start_tile<T, D, kKeys>(k_, a_.k.head<T>(kv_, a_.head_size), a_.k.stride, first_, a_.tokens,
                            a_.head_size);
    start_tile<T, D, kKeys>(v_, a_.v.head<T>(kv_, a_.head_size), a_.v.stride, first_, a_.tokens,
                            a_.head_size);
    start_queries(0);
    put_value(0, value(0));
    Fragments<1, D> dk, dv;
    clear(dk);
    clear(dv);
    for (int step = 0; step < walk_.steps; ++step) {
      wait_for_copies<0>();
      __syncthreads();
      const bool more = step + 1 < walk_.steps;
      float next = 0.f;
      if (more) {
        start_queries(step + 1);
        next = value(step + 1);
      }
      add(step, dk, dv);
      if (more) put_value(step + 1, next);
    }
    T* const spare = k_ + warp_ * 16 * kRow<D>;
    store_rows<T, D>(
        dv, [](int, int) { return 1.f; }, spare, a_.dv.head<T>(kv_, a_.head_size), a_.dv.stride,
        first_ + warp_ * 16, a_.tokens, a_.head_size);
    store_rows<T, D>(
        dk, [this](int, int) { return a_.scale; }, spare, a_.dk.head<T>(kv_, a_.head_size), a_.dk.stride,
        first_ + warp_ * 16, a_.tokens, a_.head_size);
  }

 private:
  __device__ __forceinline__ int query(int step) const { return walk_.first + step % walk_.tiles * kQueries; }
  __device__ __forceinline__ T* q_tile(int step) const { return stages_ + step % 2 * 2 * Tiles::kOtherSize; }
  __device__ __forceinline__ T* grad_tile(int step) const { return q_tile(step) + Tiles::kOtherSize; }
  __device__ __forceinline__ float* values(int step) const { return values_ + step % 2 * 2 * kQueries; }

  __device__ __forceinline__ void start_queries(int step) const {
    const int head = walk_.head(step, kv_);
    start_tile<T, D, kQueries>(q_tile(step), a_.q.head<T>(head, a_.head_size), a_.q.stride, query(step),
                               a_.tokens, a_.head_size);
    start_tile<T, D, kQueries>(grad_tile(step), a_.grad.head<T>(head, a_.head_size), a_.grad.stride,
                               query(step), a_.tokens, a_.head_size);
    commit_copies();
  }

  // One thread brings one query's log-sum-exp (in powers of two), another its delta.
  __device__ __forceinline__ float value(int step) const {
    const int i = int(threadIdx.x) % kQueries, token = query(step) + i, head = walk_.head(step, kv_);
    if (int(threadIdx.x) >= 2 * kQueries || token >= a_.tokens) return 0.f;
    return int(threadIdx.x) < kQueries ? a_.lse.head(head)[token] * kLog2OfE : a_.delta.head(head)[token];
  }
  __device__ __forceinline__ void put_value(int step, float x) const {
    if (int(threadIdx.x) < 2 * kQueries) values(step)[threadIdx.x] = x;
  }

  // Whether every query of the step sees every key of the tile.
  __device__ __forceinline__ bool all_seen(int step) const {
    const int last = query(step) + kQueries - 1;
    return first_ + kKeys - 1 <= query(step) && last <= last_query(a_, first_);
  }

  __device__ __forceinline__ void hide(float (&p)[1][kQueries / 8][4], int step) const {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int i = query(step) + n * 8 + column_ + c;
        const int low = i < a_.tokens ? first_key(a_, i) : i + 1;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int j = row_ + half * 8;
          if (j > i || j < low) p[0][n][half * 2 + c] = 0.f;
        }
      }
  }

  __device__ __forceinline__ std::uint32_t kept(int step) const {
    const int head = walk_.head(step, kv_);
    std::uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        Dropper dropper(a_, head, query(step) + n * 8 + column_ + e % 2);
        bits |= (dropper.keeps(row_ + e / 2 * 8) ? 1u : 0u) << (n * 4 + e);
      }
    return bits;
  }

  __device__ __forceinline__ void add(int step, float (&dk)[1][D / 8][4], float (&dv)[1][D / 8][4]) const {
    const TileAddress<T, D> q(q_tile(step)), grad(grad_tile(step));
    const float* const lse = values(step) + column_;
    const float* const delta = lse + kQueries;
    Fragments<1, kQueries> p, ds;
    multiply_rows<T, D>(p, TileAddress<T, D>(k_), warp_, q);
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 l = *reinterpret_cast<const float2*>(lse + n * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[0][n][e] = exp2_of(p[0][n][e] * (a_.scale * kLog2OfE) - (e % 2 == 0 ? l.x : l.y));
    }
    if (!all_seen(step)) hide(p, step);
    multiply_rows<T, D>(ds, TileAddress<T, D>(v_), warp_, grad);
    const std::uint32_t bits = kDropout ? kept(step) : 0;
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 d = *reinterpret_cast<const float2*>(delta + n * 8);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float f = !kDropout ? 1.f : (bits >> (n * 4 + e) & 1) != 0 ? a_.dropout.kept : 0.f;
        ds[0][n][e] = p[0][n][e] * (f * ds[0][n][e] - (e % 2 == 0 ? d.x : d.y));
        p[0][n][e] *= f;
      }
    }
    multiply_columns<T, D>(dv, p, grad);
    multiply_columns<T, D>(dk, ds, q);
  }

  const AttentionCall& a_;
  int kv_, first_, warp_, row_, column_;
  T *k_, *v_, *stages_;
  float* values_;
  QueryWalk walk_;
};

template <typename T, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, 2)
    attention_backward_keys(const __grid_constant__ AttentionCall a) {
  extern __shared__ __align__(128) unsigned char shared[];
  KeyGradient<T, D, kDropout>(a, shared).run();
}

// dq of 64 queries of one head.
template <typename T, int D, bool kDropout>
class QueryGradient {
 public:
  using Tiles = BackwardTiles<D>;
  static constexpr int kQueries = Tiles::kOwn, kKeys = Tiles::kOther;

  __device__ __forceinline__ QueryGradient(const AttentionCall& a, unsigned char* shared)
      : a_(a),
        head_(int(blockIdx.x)),
        kv_(head_ / (a.heads / a.kv_heads)),
        first_(int(gridDim.y - 1 - blockIdx.y) * kQueries),  // the last queries see the most keys
        last_(min(first_ + kQueries, a.tokens) - 1),
        warp_(int(threadIdx.x) / 32),
        row_(first_ + warp_ * 16 + int(threadIdx.x) % 32 / 4),
        column_(int(threadIdx.x) % 4 * 2),
        q_(reinterpret_cast<T*>(shared)),
        grad_(q_ + Tiles::kOwnSize),
        stages_(grad_ + Tiles::kOwnSize) {}

  __device__ __forceinline__ void run() {
    start_tile<T, D, kQueries>(q_, a_.q.head<T>(head_, a_.head_size), a_.q.stride, first_, a_.tokens,
                               a_.head_size);
    start_tile<T, D, kQueries>(grad_, a_.grad.head<T>(head_, a_.head_size), a_.grad.stride, first_, a_.tokens,
                               a_.head_size);
    int key = first_key(a_, first_) / kKeys * kKeys;
    const int low_of_last = first_key(a_, last_);
    start_keys(key, 0);
    Rows rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = min(row_ + half * 8, last_);
      rows.low[half] = first_key(a_, i);
      rows.lse[half] = a_.lse.head(head_)[i] * kLog2OfE;
      rows.delta[half] = a_.delta.head(head_)[i];
    }
    Fragments<1, D> dq;
    clear(dq);
    for (int stage = 0; key <= last_; key += kKeys, stage ^= 1) {
      wait_for_copies<0>();
      __syncthreads();
      if (key + kKeys <= last_) start_keys(key + kKeys, stage ^ 1);
      add(key, stage, key + kKeys - 1 <= first_ && key >= low_of_last, rows, dq);
    }
    store_rows<T, D>(
        dq, [this](int, int) { return a_.scale; }, q_ + warp_ * 16 * kRow<D>,
        a_.dq.head<T>(head_, a_.head_size), a_.dq.stride, first_ + warp_ * 16, a_.tokens, a_.head_size);
  }

 private:
  struct Rows {
    int low[2];
    float lse[2], delta[2];
  };

  __device__ __forceinline__ T* k_tile(int stage) const { return stages_ + stage * 2 * Tiles::kOtherSize; }
  __device__ __forceinline__ T* v_tile(int stage) const { return k_tile(stage) + Tiles::kOtherSize; }

  __device__ __forceinline__ void start_keys(int key, int stage) const {
    start_tile<T, D, kKeys>(k_tile(stage), a_.k.head<T>(kv_, a_.head_size), a_.k.stride, key, a_.tokens,
                            a_.head_size);
    start_tile<T, D, kKeys>(v_tile(stage), a_.v.head<T>(kv_, a_.head_size), a_.v.stride, key, a_.tokens,
                            a_.head_size);
    commit_copies();
  }

  __device__ __forceinline__ void hide(float (&p)[1][kKeys / 8][4], int key, const Rows& rows) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = key + n * 8 + column_ + e % 2;
        if (j > row_ + e / 2 * 8 || j < rows.low[e / 2]) p[0][n][e] = 0.f;
      }
  }

  __device__ __forceinline__ void drop(float (&dp)[1][kKeys / 8][4], int key) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Dropper dropper(a_, head_, row_ + half * 8);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          dp[0][n][half * 2 + e] *= dropper.keeps(key + n * 8 + column_ + e) ? a_.dropout.kept : 0.f;
    }
  }

  __device__ __forceinline__ void add(int key, int stage, bool all_seen, const Rows& rows,
                                      float (&dq)[1][D / 8][4]) const {
    const TileAddress<T, D> k(k_tile(stage)), v(v_tile(stage));
    Fragments<1, kKeys> p, ds;
    multiply_rows<T, D>(p, TileAddress<T, D>(q_), warp_, k);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) p[0][n][e] = exp2_of(p[0][n][e] * (a_.scale * kLog2OfE) - rows.lse[e / 2]);
    if (!all_seen) hide(p, key, rows);
    multiply_rows<T, D>(ds, TileAddress<T, D>(grad_), warp_, v);
    if constexpr (kDropout) drop(ds, key);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) ds[0][n][e] = p[0][n][e] * (ds[0][n][e] - rows.delta[e / 2]);
    multiply_columns<T, D>(dq, ds, k);
  }

  const AttentionCall& a_;
  int head_, kv_, first_, last_, warp_, row_, column_;
  T *q_, *grad_, *stages_;
};

template <typename T, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, 2)
    attention_backward_queries(const __grid_constant__ AttentionCall a) {
  extern __shared__ __align__(128) unsigned char shared[];
  QueryGradient<T, D, kDropout>(a, shared).run();
}

template <typename T, int D>
void launch_attention_backward(const AttentionCall& call, cudaStream_t stream) {
  using Tiles = BackwardTiles<D>;
  const bool dropout = call.dropout.rate > 0.f;
  const unsigned tiles = unsigned((call.tokens + Tiles::kOwn - 1) / Tiles::kOwn);
  launch_attention_delta<T>(call, stream);
  launch_with_shared("attention_backward",
                     dropout ? attention_backward_keys<T, D, true> : attention_backward_keys<T, D, false>,
                     dim3(unsigned(call.kv_heads), tiles), kThreads, Tiles::kKeysBytes, call, stream);
  launch_with_shared(
      "attention_backward",
      dropout ? attention_backward_queries<T, D, true> : attention_backward_queries<T, D, false>,
      dim3(unsigned(call.heads), tiles), kThreads, Tiles::kQueriesBytes, call, stream);
}

}  // namespace zt::kernels
