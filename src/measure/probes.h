// Small models whose steps show what kernels take.
#pragma once

#include <vector>

#include "exec/engine.h"
#include "spec/model.h"

namespace zt::measure {

// A model and its micro-batch.
struct Probe {
  spec::Family family = spec::Family::gpt2;
  int layers = 1, width = 0, heads = 0, inner = 0, vocab = 0;
  std::int64_t length = 0, rows = 1;
  std::int64_t tokens() const { return length * rows; }
};
std::vector<Probe> probes(bool quick);
spec::ModelSpec model_of(const Probe& probe);
// Full rows of random tokens, each one document, every token supervised.
exec::HostBatch random_batch(const Probe& probe);

}  // namespace zt::measure
