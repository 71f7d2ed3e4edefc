// Patterns of tensor names, as train.freeze lists them.
#pragma once

#include <string_view>

namespace zt::recipe {

// Whether the whole of `name` fits `pattern`, where each `*` stands for any text, also none; every other
// character stands for itself. Linear memory, and time at most the product of the lengths.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace zt::recipe
