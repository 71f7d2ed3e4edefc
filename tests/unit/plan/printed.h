// For figures that others printed.
#pragma once

#include <cmath>

namespace zt::plan {

// Whether `value`, rounded to a multiple of `digit`, is what was printed. A value half-way may have gone
// either way.
inline bool prints(double value, double printed, double digit) {
  return std::abs(value - printed) <= digit / 2 + 1e-9 * std::abs(printed);
}

}  // namespace zt::plan
