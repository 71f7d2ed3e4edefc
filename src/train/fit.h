// Whether a recipe's plan fits the memory there is, and what to change when it does not.
#pragma once

#include <cstdint>

#include "recipe/settings.h"
#include "spec/model.h"

namespace zt::train {

// How many ranks there are, and how many of them share this node's memory.
struct Ranks {
  int count = 1, on_this_node = 1;
};

// Throws Error(machine) when the plan of `recipe` needs more than `available` bytes (negative: unknown,
// always fits), shared by the ranks of this node. The message has the bill's largest entries; the hint names the settings that come nearest to
// the recipe's and fit, with the bytes they need, or says that none does. Allocates nothing.
void require_fit(const recipe::Recipe& recipe, const spec::ModelSpec& model, bool training,
                 std::int64_t available, const Ranks& ranks = {});

}  // namespace zt::train
