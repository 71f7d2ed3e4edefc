// The judge's arithmetic: plain fp64 loops, written from the formulas, without a thought for speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zt::reference {

using Vec = std::vector<double>;  // a matrix, row after row

inline Vec zeros(std::int64_t n) { return Vec(std::size_t(n), 0.0); }

// Element (row, col) of a matrix with `cols` columns.
inline double& at(Vec& x, std::int64_t cols, std::int64_t row, std::int64_t col) {
  return x[std::size_t(row * cols + col)];
}
inline double at(const Vec& x, std::int64_t cols, std::int64_t row, std::int64_t col) {
  return x[std::size_t(row * cols + col)];
}

}  // namespace zt::reference
