// Forward attention for sm_90a: warpgroup products from shared memory, fed by copies of whole tiles.
//
// Three warpgroups a block: one thread of the first copies tiles of 128 keys and values into two stages, the others take
// 64 queries each. Scores of one tile are made while probabilities of the tile before are multiplied with its values
// (Shah et al. 2024, FlashAttention-3, alg. 2). No dropout; head sizes 64 and 128; rows of whole 16-byte pieces.
#pragma once

#include <cmath>

#include "kernels/attention_maps.cuh"
#include "kernels/attention_sight.cuh"
#include "kernels/attention_warpgroup_tiles.cuh"

namespace zt::kernels {

template <int D>
struct WarpgroupStages {
  using Tiles = WarpgroupTiles<D>;
  CopyBarrier q_full, k_full[Tiles::kStages], v_full[Tiles::kStages], k_empty[Tiles::kStages],
      v_empty[Tiles::kStages];

  __device__ __forceinline__ void init() {
    q_full.init(1);
#pragma unroll
    for (int s = 0; s < Tiles::kStages; ++s) {
      k_full[s].init(1);
      v_full[s].init(1);
      k_empty[s].init(Tiles::kConsumers);
      v_empty[s].init(Tiles::kConsumers);
    }
    publish_barriers();
  }
};

template <typename T, int D>
class WarpgroupForward {
 public:
  using Tiles = WarpgroupTiles<D>;
  static constexpr int kStages = Tiles::kStages, kKeys = Tiles::kKeys, kQueries = Tiles::kQueries;

  __device__ __forceinline__ WarpgroupForward(const AttentionCall& a, const AttentionMaps& maps,
                                              unsigned char* shared, WarpgroupStages<D>& stages)
      : a_(a),
        maps_(maps),
        stages_(stages),
        shared_(first_panel(shared)),
        head_(int(blockIdx.x)),
        kv_(head_ / (a.heads / a.kv_heads)),
        first_(int(gridDim.y - 1 - blockIdx.y) * kQueries),
        last_(min(first_ + kQueries, a.tokens) - 1),
        first_key_(first_key(a, first_) / kKeys * kKeys) {}

  // One thread brings queries, then keys and values in the order in which they are needed.
  __device__ __forceinline__ void produce() {
    stages_.q_full.arrive_expecting(Tiles::kQueryBytes);
#pragma unroll
    for (int p = 0; p < D / kPanelColumns; ++p)
      copy_box(shared_ + p * Tiles::kQueryPanelBytes, &maps_.q, head_ * D + p * kPanelColumns, first_,
               stages_.q_full);
    int step = 0;
    for (int key = first_key_; key <= last_; key += kKeys, ++step) {
      const int s = step % kStages, parity = step / kStages % 2;
      bring(k_tile(s), maps_.k, key, stages_.k_empty[s], stages_.k_full[s], parity);
      bring(v_tile(s), maps_.v, key, stages_.v_empty[s], stages_.v_full[s], parity);
    }
  }

  // 64 queries of one warpgroup.
  __device__ __forceinline__ void consume(int group) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
    const int row = first_ + group * 64 + warp * 16 + lane / 4, column = lane % 4 * 2;
    const int low_of_last = first_key(a_, last_);
    int low[1][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) low[0][half] = first_key(a_, min(row + half * 8, last_));
    float o[1][D / 8][4], s[1][kKeys / 8][4];
    std::uint32_t p[kKeys / 16][4];
    SoftmaxRows<1> rows;
    clear(o);
    const auto see = [&](int key) {
      if (key + kKeys - 1 > first_ + group * 64 || key < low_of_last) hide(s, low, row, key + column);
    };
    float shrink[1][2];

    stages_.q_full.wait(0);
    stages_.k_full[0].wait(0);
    begin_products();
    start_scores(s, group, 0);
    wait_for_products<0>();
    hold(s);
    stages_.k_empty[0].arrive();
    see(first_key_);
    soften(s, rows, shrink, a_.scale * kLog2OfE);
    round_left<T>(p, s);
    int step = 1;
    for (int key = first_key_ + kKeys; key <= last_; key += kKeys, ++step) {
      stages_.k_full[step % kStages].wait(step / kStages % 2);
      stages_.v_full[(step - 1) % kStages].wait((step - 1) / kStages % 2);
      hold(s);
      hold(o);
      begin_products();
      start_scores(s, group, step);
      start_values(o, p, step - 1);
      wait_for_products<1>();
      hold(s);
      stages_.k_empty[step % kStages].arrive();
      see(key);
      soften(s, rows, shrink, a_.scale * kLog2OfE);
      wait_for_products<0>();
      hold(o);
      stages_.v_empty[(step - 1) % kStages].arrive();
      scale_rows(o, shrink);
      round_left<T>(p, s);
    }
    stages_.v_full[(step - 1) % kStages].wait((step - 1) / kStages % 2);
    hold(o);
    begin_products();
    start_values(o, p, step - 1);
    wait_for_products<0>();
    hold(o);
    finish(o, rows, group, row, column);
  }

 private:
  __device__ __forceinline__ unsigned char* q_rows(int group) const {
    return shared_ + group * 64 * kPanelRowBytes;
  }
  __device__ __forceinline__ unsigned char* k_tile(int stage) const {
    return shared_ + Tiles::kQueryBytes + stage * 2 * Tiles::kKeyBytes;
  }
  __device__ __forceinline__ unsigned char* v_tile(int stage) const {
    return k_tile(stage) + Tiles::kKeyBytes;
  }

  __device__ __forceinline__ void bring(unsigned char* tile, const CUtensorMap& map, int key,
                                        CopyBarrier& empty, CopyBarrier& full, int parity) {
    empty.wait(parity ^ 1);  // the phase before the first counts as over
    full.arrive_expecting(Tiles::kKeyBytes);
#pragma unroll
    for (int p = 0; p < D / kPanelColumns; ++p)
      copy_box(tile + p * Tiles::kPanelBytes, &map, kv_ * D + p * kPanelColumns, key, full);
  }

  __device__ __forceinline__ void start_scores(float (&s)[1][kKeys / 8][4], int group, int step) const {
    start_rows<T, D>(s, q_rows(group), Tiles::kQueryPanelBytes, k_tile(step % kStages), Tiles::kPanelBytes);
  }
  __device__ __forceinline__ void start_values(float (&o)[1][D / 8][4],
                                               const std::uint32_t (&p)[kKeys / 16][4], int step) const {
    start_columns<T>(o, p, v_tile(step % kStages), Tiles::kPanelBytes);
  }

  // By way of this warp's rows of the queries' tile, which nobody reads any more.
  __device__ __forceinline__ void finish(const float (&o)[1][D / 8][4], SoftmaxRows<1>& rows, int group,
                                         int row, int column) const {
    const int row_of_warp = int(threadIdx.x) / 32 % 4 * 16, first = first_ + group * 64 + row_of_warp;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_of_row(rows.sum[0][half]);
      const int i = row + half * 8;
      if (column == 0 && i <= last_) a_.lse.head(head_)[i] = a_.scale * rows.most[0][half] + logf(sum);
      factor[half] = 1.f / sum;
    }
    store_panels<T, D>(
        o, [&](int half) { return factor[half]; }, q_rows(group) + row_of_warp * kPanelRowBytes,
        Tiles::kQueryPanelBytes, a_.o.head<T>(head_, D) + first * a_.o.stride, a_.o.stride,
        last_ + 1 - first);
  }

  const AttentionCall& a_;
  const AttentionMaps& maps_;
  WarpgroupStages<D>& stages_;
  unsigned char* shared_;
  int head_, kv_, first_, last_, first_key_;
};

template <typename T, int D>
__global__ void __launch_bounds__(WarpgroupTiles<D>::kThreads, 1)
    attention_forward_warpgroups(const __grid_constant__ AttentionCall a,
                                 const __grid_constant__ AttentionMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ WarpgroupStages<D> stages;
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  WarpgroupForward<T, D> forward(a, maps, shared, stages);
  play_roles<1>(forward);
#endif
}

template <typename T, int D>
void launch_attention_warpgroups(const AttentionCall& call, cudaStream_t stream) {
  using Tiles = WarpgroupTiles<D>;
  const AttentionMaps maps(call, Tiles::kQueries, Tiles::kKeys);
  const dim3 grid(unsigned(call.heads), unsigned((call.tokens + Tiles::kQueries - 1) / Tiles::kQueries));
  const auto kernel = attention_forward_warpgroups<T, D>;
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tiles::kBytes),
              "attention");
  kernel<<<grid, unsigned(Tiles::kThreads), std::size_t(Tiles::kBytes), stream>>>(call, maps);
  cuda::check(cudaGetLastError(), "attention");
}

}  // namespace zt::kernels
