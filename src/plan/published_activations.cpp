#include "plan/published_activations.h"

#include <algorithm>

namespace zt::plan {

static double tokens(const ActivationShape& shape) { return shape.batch * shape.sequence; }

double zero_activations(const ActivationShape& shape, double layers) {
  return 12 * shape.hidden * tokens(shape) * layers;
}

double zero_checkpoints(const ActivationShape& shape, double layers) {
  return shape.hidden * tokens(shape) * layers;
}

double korthikanti_activations(ActivationRow row, const ActivationShape& shape, double t) {
  const double sbh = tokens(shape) * shape.hidden;
  const double scores = 5 * shape.heads * shape.sequence / shape.hidden;
  switch (row) {
    case ActivationRow::none: return sbh * (34 + scores);
    case ActivationRow::tensor: return sbh * (10 + 24 / t + scores / t);
    case ActivationRow::tensor_sequence: return sbh * (34 / t + scores / t);
    case ActivationRow::tensor_selective: return sbh * (10 + 24 / t);
    case ActivationRow::tensor_sequence_selective: return sbh * 34 / t;
    case ActivationRow::full: return 2 * sbh;
  }
  return 0;
}

double selective_saving(const ActivationShape& shape) {
  const double scores = 5 * shape.heads * shape.sequence / shape.hidden;
  return scores / (34 + scores);
}

double megatron_activations(const ActivationShape& shape, double intermediate) {
  return tokens(shape) * (18 * shape.hidden + 4 * intermediate);
}

double infinity_parameters(double layers, double hidden) { return 12 * layers * hidden * hidden; }

double infinity_checkpoints(const ActivationShape& shape, double layers, double ci) {
  return 2 * tokens(shape) * shape.hidden * layers / ci;
}

double infinity_activations(const ActivationShape& shape, double layers) {
  return 2 * tokens(shape) * layers * (16 * shape.hidden + 2 * shape.heads * shape.sequence);
}

double infinity_state_working_memory(double hidden) { return 4 * hidden * 4 * hidden; }

double infinity_activation_working_memory(const ActivationShape& shape, double ci) {
  return infinity_activations(shape, ci);
}

std::int64_t checkpointed_layers(std::int64_t layers, std::int64_t segment) {
  return (layers + segment - 1) / segment + segment;
}

std::int64_t best_segment(std::int64_t layers) {
  std::int64_t best = 1;
  // Segments longer than twice the square root only cost more.
  for (std::int64_t k = 1; k / 2 <= layers / std::max<std::int64_t>(k, 1); ++k) {
    if (checkpointed_layers(layers, k) < checkpointed_layers(layers, best)) best = k;
  }
  return best;
}

}  // namespace zt::plan
