// Evaluation: the sum of losses over the supervised tokens of a whole data set.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "exec/engine.h"

namespace zt::train {

struct Evaluation {
  double loss_sum = 0;
  std::int64_t tokens = 0;
  // Sum / count: never a mean of means, so it does not depend on the batch size.
  double loss() const { return tokens > 0 ? loss_sum / static_cast<double>(tokens) : 0; }
};

// All rows in order, `batch_size` at a time, the batches dealt out to the ranks; padding and the missing rows of
// the last batch count nothing. The same bits for every number of ranks. Collective.
Evaluation evaluate(exec::Engine& engine, const data::Dataset& rows, std::int64_t batch_size);

}  // namespace zt::train
