// What others would estimate for this model, beside the plan of ours: the text of `zerotrain plan
// --estimates`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model.h"

namespace zt::plan {

struct EstimateAsk {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 0;  // 0: all on one node
  int stage = 0;
  double ours = 0;                       // bytes of model states on one rank by our own plan
  std::vector<std::string> conventions;  // of estimate_names; none: the usual ones
  // For the lines about tokens. `flops`: what a rank achieves a second; `bandwidth`: bytes a second at which
  // gathers arrive; `tokens`: of a micro-batch on one rank. 0 of any: unknown, and the lines are left out.
  double flops = 0, bandwidth = 0, tokens = 0;
  double sequence_length = 0;                 // attention counts as computing that hides; 0: it doesn't
  double wire_weight = 2, wire_gradient = 2;  // bytes of each parameter between ranks
  bool recompute = false;                     // whole blocks
};

// Names of the conventions: zero, deepspeed, megatron-bf16, llama-factory-lora and others.
std::vector<std::string> estimate_names();

// A table, one line for each convention: bytes a parameter, GB (1e9 bytes) a rank, and how it counts them.
// Error(usage) for a stage that is not 0 to 3, fewer than one rank, or a convention that there is not.
std::string estimates_text(const spec::ModelSpec& model, const EstimateAsk& ask);

// Parameters of the largest module that holds its own, as DeepSpeed counts layers: a matrix and its bias.
std::int64_t largest_module(const spec::ModelSpec& model);

}  // namespace zt::plan
