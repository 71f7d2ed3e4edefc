// FLOPs and the time they take as papers count them, for GPT models: l layers of hidden size h, vocabulary V,
// B rows of s tokens a step. Causal masks are not halved. See spec/flops.h for PaLM's formula, which we
// report.
#pragma once

namespace zt::plan {

struct GptShape {
  double layers = 0, hidden = 0, vocab = 51200, sequence = 2048;
};

// Narayanan et al. 2021 (Megatron-LM), equation 2: 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), without the
// final norm.
double megatron_parameters(const GptShape& shape);
// Equation 3, FLOPs of a step with full recomputation: 96 B s l h^2 (1 + s/(6 h) + V/(16 l h)).
double megatron_step_flops(const GptShape& shape, double batch);
// Equation 4, seconds: 8 T P / (n X), T tokens, n GPUs of X FLOP/s each.
double training_seconds(double tokens, double parameters, double gpus, double flops);

// Korthikanti et al. 2022, appendix A. FLOPs of a step: the model's, 72 B L s h^2 (1 + s/(6 h) + v/(12 h L)),
// and the hardware's with selective recomputation of attention, 72 B L s h^2 (1 + s/(3 h) + v/(12 h L)).
double korthikanti_model_flops(const GptShape& shape, double batch);
double korthikanti_hardware_flops(const GptShape& shape, double batch);
// FLOPs of a step in `seconds` on so many GPUs, as a share of their peak.
double utilization(double step_flops, double seconds, double gpus, double peak);

// ZeRO-Infinity (Rajbhandari et al. 2021), section 4. FLOPs of an iteration with recomputation: 2 4 b s Psi.
double infinity_step_flops(double batch, double sequence, double parameters);
// FLOPs for each byte that moves, of weights and gradients: s b; of optimizer states: s b / 4; of activation
// checkpoints: 24 h ci.
double intensity_of_parameters(double batch, double sequence);
double intensity_of_optimizer(double batch, double sequence);
double intensity_of_checkpoints(double hidden, double layers_between);
// Share of peak where moving and computing do not overlap: ait bw / (ait bw + peak).
double intensity_efficiency(double intensity, double bandwidth, double peak);
// Bytes/s at which slow memory reaches a rank when each of `ranks` fetches its part over its own link and
// they gather, instead of one fetching all.
double partitioned_bandwidth(double ranks, double link);

}  // namespace zt::plan
