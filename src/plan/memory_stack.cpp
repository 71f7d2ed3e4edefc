#include "plan/memory_stack.h"

namespace zt::plan {
namespace {

// As people read it.
const char* words_of(Occupant who) {
  switch (who) {
    case Occupant::gathered_weights: return "gathered weights";
    case Occupant::whole_gradients: return "whole gradients";
    case Occupant::block_inputs: return "block inputs";
    case Occupant::activations: return "inner activations";
    case Occupant::recomputed: return "recomputed";
    case Occupant::activation_gradients: return "gradient of activations";
  }
  return "";
}

}  // namespace

MemoryStack stack_of(const std::vector<MemoryPoint>& timeline, std::int64_t constant) {
  MemoryStack stack;
  stack.constant = constant;
  for (std::size_t k = 0; k < kOccupants; ++k) {
    const Occupant who = Occupant(k);
    MemoryLayer layer{words_of(who), {}};
    for (const MemoryPoint& point : timeline) layer.bytes.push_back(point.of(who));
    stack.layers.push_back(std::move(layer));
  }
  return stack;
}

int peak_op(const MemoryStack& stack) {
  int best = -1;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < stack.ops(); ++i) {
    const std::int64_t here = stack.total(i);
    if (best < 0 || here > most) best = int(i), most = here;
  }
  return best;
}

}  // namespace zt::plan
