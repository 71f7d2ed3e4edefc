// How much each rank sends in a step, as papers count it. M = elements (or bytes) of the model's weights.
#pragma once

namespace zt::plan {

// Elements a device sends in a step of one micro-batch, in multiples of the parameters: 2 up to stage 2 (a
// reduce-scatter of gradients and an all-gather of weights), 3 at stage 3 (weights gathered twice). ZeRO
// paper, section 7. `exact` multiplies by (d-1)/d, what a ring sends.
double zero_volume(int stage, double parameters);
double zero_volume_exact(int stage, double parameters, double degree);

// Megatron's model parallelism with checkpointing, elements a block: 6 all-reduces of 2 x batch x sequence x
// hidden.
double model_parallel_volume(double batch, double sequence, double hidden);
// What P_a adds, elements a block: one all-gather of the checkpoint, 1/12 of that. ZeRO paper, section 8.
double partitioned_activation_volume(double batch, double sequence, double hidden);

// Bytes a GPU sends to other hosts, of a model of `model` bytes on `world` GPUs, G a host. Zhao et al. 2023
// (FSDP), 3.2.2.
double fsdp_replicated_volume(double model, double world);                    // 2 M (W-1)/W
double fsdp_sharded_volume(double model, double world);                       // 3 M (W-1)/W
double fsdp_hybrid_volume(double model, double world, double gpus_per_host);  // 2 M (W-1)/(G W)

// What crosses between nodes in a step, in multiples of the weights' bytes M in half precision. Wang et al.
// 2023 (ZeRO++), table 1.
struct CrossNode {
  double forward_gather = 1, backward_gather = 1, reduce_scatter = 1;
  double total() const { return forward_gather + backward_gather + reduce_scatter; }
};
struct ZeroPlusPlus {
  bool int8_weights = false;    // qwZ
  bool node_copies = false;     // hpZ: backward gathers inside the node
  bool int4_gradients = false;  // qgZ
};
CrossNode zero_plus_plus_volume(const ZeroPlusPlus& uses);
// hpZ's second shard of the weights: bytes of each GPU besides ZeRO-3's, 2 Psi / G.
double node_copy_bytes(double parameters, double gpus_per_node);
// qgZ's all-to-all of gradients, bytes that leave a node: M N / Z in one hop, M / Z in two. N GPUs a node, Z
// = compression.
double quantized_reduce_volume(double model, double gpus_per_node, double compression, bool two_hops);

}  // namespace zt::plan
