// dq for sm_90a: the second kernel of attention_warpgroup_backward.cuh.
//
// A block owns 128 queries of one head, 64 a warpgroup, and walks over the tiles of keys and values that they see, which one
// thread of a third warpgroup copies. ds of a tile is multiplied with its keys while probabilities of the next are made, so
// keys have a stage more than values.
#pragma once

#include "kernels/attention_maps.cuh"
#include "kernels/attention_sight.cuh"
#include "kernels/attention_warpgroup_tiles.cuh"

namespace zt::kernels {

template <int D>
struct QueriesStages {
  using Tiles = WarpgroupQueriesTiles<D>;
  CopyBarrier own_full, k_full[Tiles::kKeyStages], k_empty[Tiles::kKeyStages], v_full[Tiles::kValueStages],
      v_empty[Tiles::kValueStages];

  __device__ __forceinline__ void init() {
    own_full.init(1);
#pragma unroll
    for (int s = 0; s < Tiles::kKeyStages; ++s) k_full[s].init(1), k_empty[s].init(Tiles::kConsumers);
#pragma unroll
    for (int s = 0; s < Tiles::kValueStages; ++s) v_full[s].init(1), v_empty[s].init(Tiles::kConsumers);
    publish_barriers();
  }
};

template <typename T, int D>
class WarpgroupQueries {
 public:
  using Tiles = WarpgroupQueriesTiles<D>;
  static constexpr int kKeyStages = Tiles::kKeyStages, kValueStages = Tiles::kValueStages;
  static constexpr int kKeys = Tiles::kKeys, kQueries = Tiles::kQueries;

  __device__ __forceinline__ WarpgroupQueries(const AttentionCall& a, const AttentionGradMaps& maps,
                                              unsigned char* shared, QueriesStages<D>& stages)
      : a_(a),
        maps_(maps),
        stages_(stages),
        shared_(first_panel(shared)),
        head_(int(blockIdx.x)),
        kv_(head_ / (a.heads / a.kv_heads)),
        first_(int(gridDim.y - 1 - blockIdx.y) * kQueries),  // the last queries see the most keys
        last_(min(first_ + kQueries, a.tokens) - 1),
        first_key_(first_key(a, first_) / kKeys * kKeys) {}

  // One thread brings queries and do, then keys and values in the order in which they are needed.
  __device__ __forceinline__ void produce() {
    stages_.own_full.arrive_expecting(2 * Tiles::kQueryBytes);
    copy_tile(q_tile(), Tiles::kQueryPanelBytes, maps_.q, head_, first_, stages_.own_full);
    copy_tile(grad_tile(), Tiles::kQueryPanelBytes, maps_.grad, head_, first_, stages_.own_full);
    int step = 0;
    for (int key = first_key_; key <= last_; key += kKeys, ++step) {
      bring<kKeyStages>(k_tile(step), maps_.k, key, stages_.k_empty, stages_.k_full, step);
      bring<kValueStages>(v_tile(step), maps_.v, key, stages_.v_empty, stages_.v_full, step);
    }
  }

  // 64 queries of one warpgroup.
  __device__ __forceinline__ void consume(int group) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
    const int row = first_ + group * 64 + warp * 16 + lane / 4, column = lane % 4 * 2;
    const int low_of_last = first_key(a_, last_);
    const Rows rows(*this, row);
    float dq[1][D / 8][4], p[1][kKeys / 8][4], ds[1][kKeys / 8][4];
    std::uint32_t left[kKeys / 16][4];
    const auto see = [&](int key) {
      make_probabilities(p, rows);
      if (key + kKeys - 1 > first_ + group * 64 || key < low_of_last) hide_pairs(p, rows, row, key + column);
    };
    clear(dq);

    stages_.own_full.wait(0);
    stages_.k_full[0].wait(0);
    begin_products();
    start_scores(p, group, 0);
    wait_for_products<0>();
    hold(p);
    stages_.v_full[0].wait(0);
    begin_products();
    start_products_with_v(ds, group, 0);
    see(first_key_);
    wait_for_products<0>();
    hold(ds);
    stages_.v_empty[0].arrive();
    make_score_gradients(ds, p, rows);
    int step = 1;
    for (int key = first_key_ + kKeys; key <= last_; key += kKeys, ++step) {
      stages_.k_full[step % kKeyStages].wait(step / kKeyStages % 2);
      hold(p);
      begin_products();
      start_scores(p, group, step);
      round_left<T>(left, ds);
      wait_for_products<0>();
      hold(p);
      stages_.v_full[step % kValueStages].wait(step / kValueStages % 2);
      hold(ds);
      hold(dq);
      begin_products();
      start_products_with_v(ds, group, step);
      start_columns<T>(dq, left, k_tile(step - 1), Tiles::kKeyPanelBytes);
      see(key);
      wait_for_products<1>();
      hold(ds);
      stages_.v_empty[step % kValueStages].arrive();
      make_score_gradients(ds, p, rows);
      wait_for_products<0>();
      hold(dq);
      stages_.k_empty[(step - 1) % kKeyStages].arrive();
    }
    round_left<T>(left, ds);
    hold(dq);
    begin_products();
    start_columns<T>(dq, left, k_tile(step - 1), Tiles::kKeyPanelBytes);
    wait_for_products<0>();
    hold(dq);
    finish(dq, group);
  }

 private:
  // What a thread knows of its two queries.
  struct Rows {
    int low[2];
    float lse[2], delta[2];

    __device__ __forceinline__ Rows(const WarpgroupQueries& q, int row) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = min(row + half * 8, q.last_);
        low[half] = first_key(q.a_, i);
        lse[half] = q.a_.lse.head(q.head_)[i] * kLog2OfE;
        delta[half] = q.a_.delta.head(q.head_)[i];
      }
    }
  };

  __device__ __forceinline__ unsigned char* q_tile() const { return shared_; }
  __device__ __forceinline__ unsigned char* grad_tile() const { return shared_ + Tiles::kQueryBytes; }
  __device__ __forceinline__ unsigned char* k_tile(int step) const {
    return shared_ + 2 * Tiles::kQueryBytes + step % kKeyStages * Tiles::kKeyBytes;
  }
  __device__ __forceinline__ unsigned char* v_tile(int step) const {
    return shared_ + 2 * Tiles::kQueryBytes + (kKeyStages + step % kValueStages) * Tiles::kKeyBytes;
  }

  static __device__ __forceinline__ void copy_tile(unsigned char* tile, int panel_bytes,
                                                   const CUtensorMap& map, int head, int row,
                                                   CopyBarrier& full) {
#pragma unroll
    for (int p = 0; p < D / kPanelColumns; ++p)
      copy_box(tile + p * panel_bytes, &map, head * D + p * kPanelColumns, row, full);
  }
  template <int kStages>
  __device__ __forceinline__ void bring(unsigned char* tile, const CUtensorMap& map, int key,
                                        CopyBarrier (&empty)[kStages], CopyBarrier (&full)[kStages],
                                        int step) const {
    const int s = step % kStages;
    empty[s].wait(step / kStages % 2 ^ 1);  // the phase before the first counts as over
    full[s].arrive_expecting(Tiles::kKeyBytes);
    copy_tile(tile, Tiles::kKeyPanelBytes, map, kv_, key, full[s]);
  }

  __device__ __forceinline__ void start_scores(float (&s)[1][kKeys / 8][4], int group, int step) const {
    start_rows<T, D>(s, q_tile() + group * 64 * kPanelRowBytes, Tiles::kQueryPanelBytes, k_tile(step),
                     Tiles::kKeyPanelBytes);
  }
  __device__ __forceinline__ void start_products_with_v(float (&dp)[1][kKeys / 8][4], int group,
                                                        int step) const {
    start_rows<T, D>(dp, grad_tile() + group * 64 * kPanelRowBytes, Tiles::kQueryPanelBytes, v_tile(step),
                     Tiles::kKeyPanelBytes);
  }

  // Scores become e^(scale s - lse) of their row.
  __device__ __forceinline__ void make_probabilities(float (&s)[1][kKeys / 8][4], const Rows& rows) const {
    const float scale_log2 = a_.scale * kLog2OfE;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][n][e] = exp2_of(s[0][n][e] * scale_log2 - rows.lse[e / 2]);
  }

  // `row` is the query and `column` the key of the thread's first number.
  static __device__ __forceinline__ void hide_pairs(float (&p)[1][kKeys / 8][4], const Rows& rows, int row,
                                                    int column) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = column + n * 8 + e % 2;
        if (j > row + e / 2 * 8 || j < rows.low[e / 2]) p[0][n][e] = 0.f;
      }
  }

  // dp become ds = p (dp - delta) of their row.
  static __device__ __forceinline__ void make_score_gradients(float (&dp)[1][kKeys / 8][4],
                                                              const float (&p)[1][kKeys / 8][4],
                                                              const Rows& rows) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) dp[0][n][e] = p[0][n][e] * (dp[0][n][e] - rows.delta[e / 2]);
  }

  // By way of the warp's own queries, which nobody reads any more.
  __device__ __forceinline__ void finish(const float (&dq)[1][D / 8][4], int group) const {
    const int row = group * 64 + int(threadIdx.x) / 32 % 4 * 16, first = first_ + row;
    store_panels<T, D>(
        dq, [this](int) { return a_.scale; }, q_tile() + row * kPanelRowBytes, Tiles::kQueryPanelBytes,
        a_.dq.head<T>(head_, D) + first * a_.dq.stride, a_.dq.stride, a_.tokens - first);
  }

  const AttentionCall& a_;
  const AttentionGradMaps& maps_;
  QueriesStages<D>& stages_;
  unsigned char* shared_;
  int head_, kv_, first_, last_, first_key_;
};

template <typename T, int D>
__global__ void __launch_bounds__(WarpgroupQueriesTiles<D>::kThreads, 1)
    attention_backward_queries_warpgroups(const __grid_constant__ AttentionCall a,
                                          const __grid_constant__ AttentionGradMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ QueriesStages<D> stages;
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  WarpgroupQueries<T, D> queries(a, maps, shared, stages);
  play_roles<1>(queries);
#endif
}

}  // namespace zt::kernels
