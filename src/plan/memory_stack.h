// What fills the memory during a step, as the pictures need it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/memory_timeline.h"

namespace zt::plan {

// What one purpose holds while each op of the list runs: after its births, before its frees.
struct MemoryLayer {
  std::string name;                 // as the legend says it: "inner activations"
  std::vector<std::int64_t> bytes;  // by op
  friend bool operator==(const MemoryLayer&, const MemoryLayer&) = default;
};

// Drawn from the ground up: the constant part, then the layers in their order.
struct MemoryStack {
  std::int64_t constant = 0;  // what is there all the time: weights, gradients, optimizer, workspace, ...
  std::vector<MemoryLayer> layers;

  std::size_t ops() const { return layers.empty() ? 0 : layers.front().bytes.size(); }
  // Everything that is there while op i runs.
  std::int64_t total(std::size_t op) const {
    std::int64_t sum = constant;
    for (const MemoryLayer& layer : layers) sum += layer.bytes[op];
    return sum;
  }
};

// `constant`: StepPlan::total() - StepPlan::arena.
MemoryStack stack_of(const std::vector<MemoryPoint>& timeline, std::int64_t constant);

// The op with the largest total, the first of equals; -1 without ops.
int peak_op(const MemoryStack& stack);

}  // namespace zt::plan
