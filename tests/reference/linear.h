// Products of a linear layer by their sums (kernels/linear.h). Weights are [O, I] here; `transposed` turns
// the other layout into it.
#pragma once

#include "reference/matrix.h"

namespace zt::reference {

inline Vec transposed(const Vec& x, std::int64_t rows, std::int64_t cols) {
  Vec out = x;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) at(out, rows, c, r) = at(x, cols, r, c);
  return out;
}

// y += x w^T + b
inline void linear(const Vec& x, const Vec& w, const Vec& b, std::int64_t I, std::int64_t O, Vec* y) {
  const std::int64_t N = std::int64_t(x.size()) / I;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t o = 0; o < O; ++o) {
      double sum = b.empty() ? 0 : b[std::size_t(o)];
      for (std::int64_t i = 0; i < I; ++i) sum += at(x, I, n, i) * at(w, I, o, i);
      at(*y, O, n, o) += sum;
    }
}

// dx += dy w, dw += dy^T x, db += sum dy
inline void linear_backward(const Vec& x, const Vec& w, const Vec& dy, std::int64_t I, std::int64_t O,
                            Vec* dx, Vec* dw, Vec* db) {
  const std::int64_t N = std::int64_t(x.size()) / I;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t o = 0; o < O; ++o) {
      const double g = at(dy, O, n, o);
      (*db)[std::size_t(o)] += g;
      for (std::int64_t i = 0; i < I; ++i) {
        at(*dx, I, n, i) += g * at(w, I, o, i);
        at(*dw, I, o, i) += g * at(x, I, n, i);
      }
    }
}

}  // namespace zt::reference
