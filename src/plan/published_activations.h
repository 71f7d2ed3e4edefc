// What papers say activations take. b = rows of a micro-batch, s = sequence length, h = hidden size, a =
// heads, L = layers.
#pragma once

#include <cstdint>

namespace zt::plan {

struct ActivationShape {
  double batch = 1, sequence = 0, hidden = 0, heads = 0;
};

// Elements a model keeps: 12 h b s L. ZeRO paper, section 3.2, footnote 3.
double zero_activations(const ActivationShape& shape, double layers);
// Elements of one checkpoint a layer: b s h L.
double zero_checkpoints(const ActivationShape& shape, double layers);

// Rows of Korthikanti et al. 2022, table 2: bytes of one GPT layer with 2-byte numbers, 1-byte dropout masks
// and an MLP of 4 h.
enum class ActivationRow : std::uint8_t {
  none,                       // s b h (34 + 5 a s / h)
  tensor,                     // s b h (10 + 24/t + 5 a s / (h t))
  tensor_sequence,            // s b h (34/t + 5 a s / (h t))
  tensor_selective,           // s b h (10 + 24/t)
  tensor_sequence_selective,  // s b h 34/t
  full                        // 2 s b h
};
double korthikanti_activations(ActivationRow row, const ActivationShape& shape, double tensor_parallel = 1);
// 5 a s / h against 34: the share of a layer's activations that selective recomputation saves.
double selective_saving(const ActivationShape& shape);

// Megatron-LM's own estimate for a layer, theoretical_memory_usage.py: s b h (18 + 4 f / h), f = MLP's inner
// size.
double megatron_activations(const ActivationShape& shape, double intermediate);

// ZeRO-Infinity (Rajbhandari et al. 2021), section 3; bytes of 2-byte numbers. ci = layers between
// checkpoints.
double infinity_parameters(double layers, double hidden);                             // 12 L h^2
double infinity_checkpoints(const ActivationShape& shape, double layers, double ci);  // 2 b s h L / ci
double infinity_activations(const ActivationShape& shape, double layers);  // 2 b s L (16 h + 2 a s)
double infinity_state_working_memory(double hidden);  // 4 h 4h: one h x 4h linear and its gradient
double infinity_activation_working_memory(const ActivationShape& shape,
                                          double ci);  // 2 b s ci (16 h + 2 a s)

// Layers' worth of activations that sqrt checkpointing keeps with segments of k: ceil(L / k) + k. Chen et al.
// 2016.
std::int64_t checkpointed_layers(std::int64_t layers, std::int64_t segment);
// The segment of the fewest.
std::int64_t best_segment(std::int64_t layers);

}  // namespace zt::plan
