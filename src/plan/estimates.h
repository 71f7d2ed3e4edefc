// What others would estimate for this model, beside the plan of ours: the text of `zerotrain plan
// --estimates`.
#pragma once

#include <cstdint>
#include <string>

#include "spec/model.h"

namespace zt::plan {

struct EstimateAsk {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 0;  // 0: all on one node
  int stage = 0;
  double ours = 0;  // bytes of model states on one rank by our own plan
  // For the lines about tokens. `flops`: what a rank achieves a second; `bandwidth`: bytes a second at which
  // gathers arrive; `tokens`: of a micro-batch on one rank. 0 of any: unknown, and the lines are left out.
  double flops = 0, bandwidth = 0, tokens = 0;
  double sequence_length = 0;                 // attention counts as computing that hides; 0: it doesn't
  double wire_weight = 2, wire_gradient = 2;  // bytes of each parameter between ranks
  bool recompute = false;                     // whole blocks
};

// A table, one line for each convention: bytes a parameter, GB (1e9 bytes) a rank, and what it says of this
// stage. Error(usage) for a stage that is not 0 to 3, or fewer than one rank.
std::string estimates_text(const spec::ModelSpec& model, const EstimateAsk& ask);

// Parameters of the largest module that holds its own, as DeepSpeed counts layers: a matrix and its bias.
std::int64_t largest_module(const spec::ModelSpec& model);

}  // namespace zt::plan
