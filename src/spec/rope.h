// Frequencies of rotary position embedding with the scalings of long-context models.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/model.h"

namespace zt::spec {

// head_size / 2 inverse frequencies w_i, i = 0..d/2-1; the angle at position p is p w_i. Plain RoPE is
//
//   w_i = theta^(-2i/d)                                              Su et al. 2021 (RoFormer), 3.2.2
//
// and the scalings follow transformers' modeling_rope_utils.py:
//   linear   w_i / factor                                            Chen et al. 2023, position interpolation
//   dynamic  theta grows with the sequence: theta (f T/L - f + 1)^(d/(d-2)), T = max(sequence_length, L)
//   llama3   long waves divided by factor, short kept, between blended   Llama 3.1
//   yarn     a linear ramp over i between kept and divided           Peng et al. 2023, 3.2
// `sequence_length` matters to dynamic only.
std::vector<double> inverse_frequencies(const ModelSpec& spec, std::int64_t sequence_length);

// What cos and sin are multiplied by: 1 but for yarn (there 0.1 ln(factor) + 1, or as the config says), so
// scores grow by its square.
double rope_attention_factor(const ModelSpec& spec);

}  // namespace zt::spec
