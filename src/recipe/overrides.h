// `--set a.b=value`: changes the tree before the tables read it, so overrides meet the same checks as the
// file.
#pragma once

#include <string>
#include <vector>

#include "recipe/tree.h"

namespace zt::recipe {

// Puts each override into the tree, in order; what can't be placed is a fault.
void apply_overrides(const std::vector<std::string>& sets, Node& root, Faults& faults);

}  // namespace zt::recipe
