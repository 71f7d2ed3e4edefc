#include "plan/published_flops.h"

namespace zt::plan {

double megatron_parameters(const GptShape& m) {
  return 12 * m.layers * m.hidden * m.hidden + 13 * m.layers * m.hidden + (m.vocab + m.sequence) * m.hidden;
}

double megatron_step_flops(const GptShape& m, double batch) {
  return 96 * batch * m.sequence * m.layers * m.hidden * m.hidden *
         (1 + m.sequence / (6 * m.hidden) + m.vocab / (16 * m.layers * m.hidden));
}

double training_seconds(double tokens, double parameters, double gpus, double flops) {
  return 8 * tokens * parameters / (gpus * flops);
}

// `attention`: how often the products of queries, keys and values count; the paper counts them twice where
// they are made again.
static double korthikanti_flops(const GptShape& m, double batch, double attention) {
  return 72 * batch * m.layers * m.sequence * m.hidden * m.hidden *
         (1 + attention * m.sequence / (6 * m.hidden) + m.vocab / (12 * m.hidden * m.layers));
}

double korthikanti_model_flops(const GptShape& m, double batch) { return korthikanti_flops(m, batch, 1); }

double korthikanti_hardware_flops(const GptShape& m, double batch) { return korthikanti_flops(m, batch, 2); }

double utilization(double step_flops, double seconds, double gpus, double peak) {
  return step_flops / (seconds * gpus * peak);
}

double infinity_step_flops(double batch, double sequence, double parameters) {
  return 2 * 4 * batch * sequence * parameters;
}

double intensity_of_parameters(double batch, double sequence) { return sequence * batch; }

double intensity_of_optimizer(double batch, double sequence) { return sequence * batch / 4; }

double intensity_of_checkpoints(double hidden, double layers_between) { return 24 * hidden * layers_between; }

double intensity_efficiency(double intensity, double bandwidth, double peak) {
  return intensity * bandwidth / (intensity * bandwidth + peak);
}

double partitioned_bandwidth(double ranks, double link) { return ranks * link; }

}  // namespace zt::plan
