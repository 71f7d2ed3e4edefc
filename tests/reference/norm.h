// Norms by their formulas (kernels/norm.h).
#pragma once

#include <cmath>

#include "reference/matrix.h"

namespace zt::reference {

struct Norm {
  Vec y, mean, r;  // [N, H D], [N, H], [N, H]; mean is 0 for RMS norms
};

// x holds `groups` groups of D features one after the other, g (and b, unless empty) D.
inline Norm norm(const Vec& x, const Vec& g, const Vec& b, double eps, bool centred) {
  const auto D = std::int64_t(g.size()), groups = std::int64_t(x.size()) / D;
  Norm out{x, zeros(groups), zeros(groups)};
  for (std::int64_t n = 0; n < groups; ++n) {
    double mean = 0, square = 0;
    for (std::int64_t d = 0; d < D && centred; ++d) mean += at(x, D, n, d) / double(D);
    for (std::int64_t d = 0; d < D; ++d) square += std::pow(at(x, D, n, d) - mean, 2) / double(D);
    const double r = 1 / std::sqrt(square + eps);
    for (std::int64_t d = 0; d < D; ++d)
      at(out.y, D, n, d) =
          (at(x, D, n, d) - mean) * r * g[std::size_t(d)] + (b.empty() ? 0 : b[std::size_t(d)]);
    out.mean[std::size_t(n)] = mean;
    out.r[std::size_t(n)] = r;
  }
  return out;
}

struct NormGrad {
  Vec dx, dg, db;
};

// By the chain rule from y = h g + b, h = (x - mean) r, with the given mean and r.
inline NormGrad norm_backward(const Vec& x, const Vec& g, const Vec& mean, const Vec& r, const Vec& dy,
                              bool centred) {
  const auto D = std::int64_t(g.size()), groups = std::int64_t(x.size()) / D;
  NormGrad out{x, zeros(D), zeros(D)};
  for (std::int64_t n = 0; n < groups; ++n) {
    const double m = mean[std::size_t(n)], rn = r[std::size_t(n)];
    double level = 0, along = 0;  // means of dh and of dh h
    for (std::int64_t d = 0; d < D; ++d) {
      const double dh = at(dy, D, n, d) * g[std::size_t(d)], h = (at(x, D, n, d) - m) * rn;
      if (centred) level += dh / double(D);
      along += dh * h / double(D);
    }
    for (std::int64_t d = 0; d < D; ++d) {
      const double dh = at(dy, D, n, d) * g[std::size_t(d)], h = (at(x, D, n, d) - m) * rn;
      at(out.dx, D, n, d) = rn * (dh - level - h * along);
      out.dg[std::size_t(d)] += at(dy, D, n, d) * h;
      out.db[std::size_t(d)] += at(dy, D, n, d);
    }
  }
  return out;
}

}  // namespace zt::reference
