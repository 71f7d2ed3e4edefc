// Backward of attention for sm_90a: warpgroup products from shared memory, fed by copies of whole tiles, as in
// attention_warpgroup.cuh; the same two kernels and formulas as in attention_backward.cuh (Dao 2023, FlashAttention-2, alg. 2;
// Shah et al. 2024, FlashAttention-3, section 3). No dropout; head sizes 64 and 128; rows of whole 16-byte pieces.
#pragma once

#include "kernels/attention_warpgroup_keys.cuh"
#include "kernels/attention_warpgroup_queries.cuh"

namespace zt::kernels {

template <typename Tiles>
void launch_gradient(void (*kernel)(AttentionCall, AttentionGradMaps), int heads, int tiles,
                     const AttentionCall& call, cudaStream_t stream) {
  const AttentionGradMaps maps(call, Tiles::kQueries, Tiles::kKeys);
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tiles::kBytes),
              "attention_backward");
  kernel<<<dim3(unsigned(heads), unsigned(tiles)), unsigned(Tiles::kThreads), std::size_t(Tiles::kBytes),
           stream>>>(call, maps);
  cuda::check(cudaGetLastError(), "attention_backward");
}

template <typename T, int D>
void launch_attention_backward_warpgroups(const AttentionCall& call, cudaStream_t stream) {
  using Keys = WarpgroupKeysTiles<D>;
  using Queries = WarpgroupQueriesTiles<D>;
  launch_attention_delta<T>(call, stream);
  launch_gradient<Keys>(attention_backward_keys_warpgroups<T, D>, call.kv_heads,
                        (call.tokens + Keys::kKeys - 1) / Keys::kKeys, call, stream);
  launch_gradient<Queries>(attention_backward_queries_warpgroups<T, D>, call.heads,
                           (call.tokens + Queries::kQueries - 1) / Queries::kQueries, call, stream);
}

}  // namespace zt::kernels
