// One page about a run, or about several laid over each other.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace zt::report {

inline constexpr std::size_t kMostRuns = 24;

// A self-contained HTML page. Its pictures need no script; a small one of its own adds values at the pointer and
// switches for runs. Throws Error(usage) for no runs and for more than kMostRuns.
std::string report_page(const std::vector<Run>& runs);

}  // namespace zt::report
