// What a token costs, by the formula everybody reports.
#pragma once

#include <cstdint>

#include "spec/model.h"

namespace zt::spec {

// Training FLOPs of one token in a sequence of `sequence_length`, forward and backward, without recompute:
//
//   6 N + 12 L H Q T          L layers, H heads, Q head size, T sequence length
//
// Source: Chowdhery et al. 2022 (PaLM), appendix B; a causal mask is not halved. N is every parameter except
// GPT-2's position embeddings (as nanoGPT): the token embedding counts, once where it is tied to the head.
double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

// Forward alone: a third.
double forward_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length);

}  // namespace zt::spec
