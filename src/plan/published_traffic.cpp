#include "plan/published_traffic.h"

namespace zt::plan {

double zero_volume(int stage, double parameters) { return (stage >= 3 ? 3 : 2) * parameters; }

double zero_volume_exact(int stage, double parameters, double degree) {
  return zero_volume(stage, parameters) * (degree - 1) / degree;
}

double model_parallel_volume(double batch, double sequence, double hidden) {
  const double message = batch * sequence * hidden, all_reduces = 6;
  return all_reduces * 2 * message;
}

double partitioned_activation_volume(double batch, double sequence, double hidden) {
  return batch * sequence * hidden;
}

double fsdp_replicated_volume(double model, double world) { return 2 * model * (world - 1) / world; }

double fsdp_sharded_volume(double model, double world) { return 3 * model * (world - 1) / world; }

double fsdp_hybrid_volume(double model, double world, double gpus_per_host) {
  return fsdp_replicated_volume(model, world) / gpus_per_host;
}

CrossNode zero_plus_plus_volume(const ZeroPlusPlus& uses) {
  CrossNode volume;
  if (uses.int8_weights) volume.forward_gather = volume.backward_gather = 0.5;
  if (uses.node_copies) volume.backward_gather = 0;
  if (uses.int4_gradients) volume.reduce_scatter = 0.25;
  return volume;
}

double node_copy_bytes(double parameters, double gpus_per_node) { return 2 * parameters / gpus_per_node; }

double quantized_reduce_volume(double model, double gpus_per_node, double compression, bool two_hops) {
  return (two_hops ? 1 : gpus_per_node) * model / compression;
}

}  // namespace zt::plan
