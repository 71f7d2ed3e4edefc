// Rotary embedding as a complex product: (x_i + j x_{i + d/2}) e^{j angle_i} (Su et al. 2021, eq. 13).
#pragma once

#include <complex>

#include "reference/matrix.h"

namespace zt::reference {

// x [N, H d] is rotated by angles [N, d/2].
inline Vec rope(const Vec& x, const Vec& angles, std::int64_t N, std::int64_t H, std::int64_t d) {
  Vec y = x;
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const std::complex<double> before(at(x, H * d, n, h * d + i), at(x, H * d, n, h * d + i + d / 2));
        const std::complex<double> after = before * std::polar(1.0, at(angles, d / 2, n, i));
        at(y, H * d, n, h * d + i) = after.real();
        at(y, H * d, n, h * d + i + d / 2) = after.imag();
      }
    }
  }
  return y;
}

}  // namespace zt::reference
