// dk and dv for sm_90a: the first kernel of attention_warpgroup_backward.cuh.
//
// A block owns 128 keys of one key/value head, 64 a warpgroup, and walks over the query tiles that see them, once for each
// head of the group. One warp of a third warpgroup brings queries, do, log-sum-exp and delta into three stages. Keys are rows of
// the scores, so p and ds are left operands as they stand.
#pragma once

#include "kernels/attention_maps.cuh"
#include "kernels/attention_sight.cuh"
#include "kernels/attention_warpgroup_tiles.cuh"

namespace zt::kernels {

template <int D>
struct KeysStages {
  using Tiles = WarpgroupKeysTiles<D>;
  CopyBarrier own_full, full[Tiles::kStages], empty[Tiles::kStages];

  __device__ __forceinline__ void init() {
    own_full.init(1);
#pragma unroll
    for (int s = 0; s < Tiles::kStages; ++s) {
      full[s].init(1 + 32);  // the copies, and the warp that writes values
      empty[s].init(Tiles::kConsumers);
    }
    publish_barriers();
  }
};

template <typename T, int D>
class WarpgroupKeys {
 public:
  using Tiles = WarpgroupKeysTiles<D>;
  static constexpr int kStages = Tiles::kStages, kKeys = Tiles::kKeys, kQueries = Tiles::kQueries;

  __device__ __forceinline__ WarpgroupKeys(const AttentionCall& a, const AttentionGradMaps& maps,
                                           unsigned char* shared, KeysStages<D>& stages)
      : a_(a),
        maps_(maps),
        stages_(stages),
        shared_(first_panel(shared)),
        kv_(int(blockIdx.x)),
        first_(int(blockIdx.y) * kKeys),
        walk_(a, first_, kKeys, kQueries) {}

  // One warp: its first thread starts the copies, all bring values.
  __device__ __forceinline__ void produce() {
    const bool first_thread = threadIdx.x == 0;
    if (first_thread) {
      stages_.own_full.arrive_expecting(2 * Tiles::kKeyBytes);
      bring(k_tile(), Tiles::kKeyPanelBytes, maps_.k, kv_, first_, stages_.own_full);
      bring(v_tile(), Tiles::kKeyPanelBytes, maps_.v, kv_, first_, stages_.own_full);
    }
    for (int step = 0; step < walk_.steps; ++step) {
      const int s = step % kStages, head = walk_.head(step, kv_);
      const int query = walk_.first + step % walk_.tiles * kQueries;
      float found[kValues];
      fetch_values(found, head, query);               // on their way while the stage is waited for
      stages_.empty[s].wait(step / kStages % 2 ^ 1);  // the phase before the first counts as over
      if (first_thread) {
        stages_.full[s].arrive_expecting(2 * Tiles::kQueryBytes);
        bring(q_tile(s), Tiles::kQueryPanelBytes, maps_.q, head, query, stages_.full[s]);
        bring(grad_tile(s), Tiles::kQueryPanelBytes, maps_.grad, head, query, stages_.full[s]);
      }
#pragma unroll
      for (int i = 0; i < kValues; ++i) values(s)[i * 32 + int(threadIdx.x)] = found[i];
      stages_.full[s].arrive();
    }
  }

  // 64 keys of one warpgroup.
  __device__ __forceinline__ void consume(int group) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
    const int first_of_warp = first_ + group * 64 + warp * 16, row = first_of_warp + lane / 4;
    const int last[2] = {last_of(row), last_of(row + 8)};
    const int last_of_first = last_of(first_ + group * 64);
    float dk[1][D / 8][4], dv[1][D / 8][4], p[1][kQueries / 8][4], ds[1][kQueries / 8][4];
    std::uint32_t p_left[kQueries / 16][4], ds_left[kQueries / 16][4];
    clear(dk);
    clear(dv);

    // From the scores of a tile to what dk is made of; the product that ends in dv is begun.
    const auto add_to_dv = [&](int s, int query) {
      hold(p);
      hold(ds);
      begin_products();
      start_products_with_v(ds, group, s);
      make_probabilities(p, values(s));
      if (first_ + group * 64 + 63 > query || query + kQueries - 1 > last_of_first)
        hide_pairs(p, row, last, query + lane % 4 * 2);
      round_left<T>(p_left, p);
      hold(dv);
      begin_products();
      start_columns<T>(dv, p_left, grad_tile(s), Tiles::kQueryPanelBytes);
      wait_for_products<1>();
      hold(ds);
      make_score_gradients(ds, p, values(s) + kQueries);
      round_left<T>(ds_left, ds);
    };
    const auto start_dk = [&](int s) {
      hold(dk);
      hold(p);
      begin_products();
      start_columns<T>(dk, ds_left, q_tile(s), Tiles::kQueryPanelBytes);
    };

    stages_.own_full.wait(0);
    stages_.full[0].wait(0);
    begin_products();
    start_scores(p, group, 0);
    wait_for_products<0>();
    int query = walk_.first;
    for (int step = 1; step < walk_.steps; ++step) {
      const int s = (step - 1) % kStages;
      add_to_dv(s, query);
      stages_.full[step % kStages].wait(step / kStages % 2);
      start_dk(s);
      start_scores(p, group, step % kStages);
      wait_for_products<0>();
      hold(dv);
      hold(dk);
      stages_.empty[s].arrive();
      query += kQueries;
      if (query >= walk_.first + walk_.tiles * kQueries) query = walk_.first;  // the next head
    }
    add_to_dv((walk_.steps - 1) % kStages, query);
    start_dk((walk_.steps - 1) % kStages);
    wait_for_products<0>();
    hold(dv);
    hold(dk);
    finish(dv, 1.f, v_tile(), group, a_.dv);
    finish(dk, a_.scale, k_tile(), group, a_.dk);
  }

 private:
  __device__ __forceinline__ unsigned char* k_tile() const { return shared_; }
  __device__ __forceinline__ unsigned char* v_tile() const { return shared_ + Tiles::kKeyBytes; }
  __device__ __forceinline__ unsigned char* q_tile(int stage) const {
    return shared_ + 2 * Tiles::kKeyBytes + stage * 2 * Tiles::kQueryBytes;
  }
  __device__ __forceinline__ unsigned char* grad_tile(int stage) const {
    return q_tile(stage) + Tiles::kQueryBytes;
  }
  // Log-sum-exp of each query of a stage, then delta of each; so many for each thread that brings them.
  static constexpr int kValues = 2 * kQueries / 32;
  __device__ __forceinline__ float* values(int stage) const {
    return reinterpret_cast<float*>(q_tile(kStages)) + stage * 2 * kQueries;
  }
  // The last query that sees a key; none sees those beyond the last token.
  __device__ __forceinline__ int last_of(int key) const { return key < a_.tokens ? last_query(a_, key) : -1; }

  static __device__ __forceinline__ void bring(unsigned char* tile, int panel_bytes, const CUtensorMap& map,
                                               int head, int row, CopyBarrier& full) {
#pragma unroll
    for (int p = 0; p < D / kPanelColumns; ++p)
      copy_box(tile + p * panel_bytes, &map, head * D + p * kPanelColumns, row, full);
  }

  // This thread's of a stage's values. Log-sum-exp in powers of two. Zeros beyond the last token: nothing that is no
  // number comes of them.
  __device__ __forceinline__ void fetch_values(float (&found)[kValues], int head, int query) const {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int place = i * 32 + int(threadIdx.x), token = query + place % kQueries;
      const bool real = token < a_.tokens;
      if (i < kValues / 2)
        found[i] = real ? a_.lse.head(head)[token] * kLog2OfE : 0.f;
      else
        found[i] = real ? a_.delta.head(head)[token] : 0.f;
    }
  }

  __device__ __forceinline__ void start_scores(float (&s)[1][kQueries / 8][4], int group, int stage) const {
    start_rows<T, D>(s, k_tile() + group * 64 * kPanelRowBytes, Tiles::kKeyPanelBytes, q_tile(stage),
                     Tiles::kQueryPanelBytes);
  }
  __device__ __forceinline__ void start_products_with_v(float (&dp)[1][kQueries / 8][4], int group,
                                                        int stage) const {
    start_rows<T, D>(dp, v_tile() + group * 64 * kPanelRowBytes, Tiles::kKeyPanelBytes, grad_tile(stage),
                     Tiles::kQueryPanelBytes);
  }

  // Scores become e^(scale s - lse) of their column.
  __device__ __forceinline__ void make_probabilities(float (&s)[1][kQueries / 8][4], const float* lse) const {
    const float scale_log2 = a_.scale * kLog2OfE;
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 l = *reinterpret_cast<const float2*>(lse + n * 8 + int(threadIdx.x) % 4 * 2);
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][n][e] = exp2_of(s[0][n][e] * scale_log2 - (e % 2 == 0 ? l.x : l.y));
    }
  }

  // `row` is the key and `column` the query of the thread's first number.
  static __device__ __forceinline__ void hide_pairs(float (&p)[1][kQueries / 8][4], int row,
                                                    const int (&last)[2], int column) {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = column + n * 8 + e % 2;
        if (i < row + e / 2 * 8 || i > last[e / 2]) p[0][n][e] = 0.f;
      }
  }

  // dp become ds = p (dp - delta) of their column.
  static __device__ __forceinline__ void make_score_gradients(float (&dp)[1][kQueries / 8][4],
                                                              const float (&p)[1][kQueries / 8][4],
                                                              const float* delta) {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 d = *reinterpret_cast<const float2*>(delta + n * 8 + int(threadIdx.x) % 4 * 2);
#pragma unroll
      for (int e = 0; e < 4; ++e) dp[0][n][e] = p[0][n][e] * (dp[0][n][e] - (e % 2 == 0 ? d.x : d.y));
    }
  }

  // By way of the warp's own keys or values, which nobody reads any more.
  __device__ __forceinline__ void finish(const float (&c)[1][D / 8][4], float factor, unsigned char* tile,
                                         int group, const HeadRows& to) const {
    const int row = group * 64 + int(threadIdx.x) / 32 % 4 * 16, first = first_ + row;
    store_panels<T, D>(
        c, [factor](int) { return factor; }, tile + row * kPanelRowBytes, Tiles::kKeyPanelBytes,
        to.head<T>(kv_, D) + first * to.stride, to.stride, a_.tokens - first);
  }

  const AttentionCall& a_;
  const AttentionGradMaps& maps_;
  KeysStages<D>& stages_;
  unsigned char* shared_;
  int kv_, first_;
  QueryWalk walk_;
};

template <typename T, int D>
__global__ void __launch_bounds__(WarpgroupKeysTiles<D>::kThreads, 1)
    attention_backward_keys_warpgroups(const __grid_constant__ AttentionCall a,
                                       const __grid_constant__ AttentionGradMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ KeysStages<D> stages;
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  WarpgroupKeys<T, D> keys(a, maps, shared, stages);
  play_roles<32>(keys);
#endif
}

}  // namespace zt::kernels
