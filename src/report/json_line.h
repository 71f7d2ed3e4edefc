// One line of metrics.jsonl, read fast: a long run has a million of them.
#pragma once

#include <functional>
#include <string_view>

namespace zt::report {

// Calls `found` for each member of the object whose value is a number, true (1), false (0) or null (not a number).
// Other values are stepped over, what is inside of them too. False when the text is no JSON object, perhaps after calls.
bool each_number(std::string_view line, const std::function<void(std::string_view key, double value)>& found);

}  // namespace zt::report
