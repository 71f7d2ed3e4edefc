// Round to nearest even by scaling to an integer: no bits are touched.
#pragma once

#include <cfenv>
#include <cmath>

#include "tensor/dtype.h"

namespace zt::reference {

struct Format {
  int digits;    // of the significand, with the leading one
  int smallest;  // 2^smallest is the spacing of subnormal numbers
  double most;   // the largest finite value
};

inline Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return {8, -133, (2 - 0x1p-7) * 0x1p127};
    case Dtype::f16: return {11, -24, 65504};
    default: return {24, -149, (2 - 0x1p-23) * 0x1p127};
  }
}

// The nearest number of the format; ties go to the even one, beyond the largest by half a spacing: infinity.
inline double rounded(Dtype dtype, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const Format f = format_of(dtype);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int spacing = std::max(exponent - f.digits, f.smallest);
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(x, -spacing)), spacing);
  return std::abs(nearest) > f.most ? std::copysign(INFINITY, x) : nearest;
}

}  // namespace zt::reference
