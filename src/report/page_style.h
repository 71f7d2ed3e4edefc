// The report's style sheet and script.
#pragma once

#include <string>

namespace zt::report {

inline constexpr int kColors = 6, kDashes = 4;

// Rules for charts: the runs' colours for light and dark grounds are those of the plan's pictures, which tests hold
// apart for people who see few colours. Runs differ in their dashes too.
std::string report_style();

// Shows the values at the pointer in all charts, and lets runs be hidden.
std::string report_script();

}  // namespace zt::report
