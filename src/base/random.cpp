#include "base/random.h"

#include <cmath>
#include <numbers>

namespace zt {

std::array<float, 2> normal_pair(std::uint32_t w0, std::uint32_t w1) {
  const double u = (double(w0) + 1.0) * 0x1p-32;  // in (0, 1], so the logarithm is finite
  const double angle = 2.0 * std::numbers::pi * double(w1) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {float(radius * std::cos(angle)), float(radius * std::sin(angle))};
}

}  // namespace zt
