// Dropout by its definition, one random word at a time (kernels/dropout.h).
#pragma once

#include "base/random.h"
#include "reference/matrix.h"

namespace zt::reference {

inline Vec dropout(const Vec& x, std::int64_t D, double p, const RandomStream& random,
                   std::int64_t first_row) {
  Vec y = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t element = std::uint64_t(first_row * D) + i;
    const bool kept = double(uniform(random.words(element / 4)[element % 4])) >= p;
    y[i] = kept ? x[i] / (1 - p) : 0;
  }
  return y;
}

}  // namespace zt::reference
