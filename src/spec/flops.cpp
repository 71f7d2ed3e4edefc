#include "spec/flops.h"

namespace zt::spec {

double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length) {
  const TensorSpec* positions = spec.embedding().find("wpe.weight");
  const std::int64_t n = spec.parameters() - (positions == nullptr ? 0 : positions->elements());
  return 6.0 * double(n) + 12.0 * spec.layers * double(spec.q_size()) * double(sequence_length);
}

double forward_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length) {
  return training_flops_per_token(spec, sequence_length) / 3.0;
}

}  // namespace zt::spec
