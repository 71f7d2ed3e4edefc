// Activations by their formulas (kernels/activation.h).
#pragma once

#include <cmath>
#include <numbers>

namespace zt::reference {

inline double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline double gelu_slope(double x) {
  const double c = std::sqrt(2 / std::numbers::pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

inline double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

}  // namespace zt::reference
