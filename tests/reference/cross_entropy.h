// The language-model head with its loss (kernels/cross_entropy.h), with all logits at once.
#pragma once

#include <cmath>

#include "reference/linear.h"

namespace zt::reference {

struct Head {
  Vec losses, dx, dw;
  double loss = 0;
};

inline Head cross_entropy_head(const Vec& x, const Vec& w, const Vec& targets, double grad_scale,
                               std::int64_t D) {
  const auto N = std::int64_t(targets.size()), V = std::int64_t(w.size()) / D;
  Vec logits = zeros(N * V), db = zeros(V);
  linear(x, w, {}, D, V, &logits);
  Head out{zeros(N), zeros(N * D), zeros(V * D)};
  for (std::int64_t n = 0; n < N; ++n) {
    const auto target = std::int64_t(targets[std::size_t(n)]);
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) sum += std::exp(at(logits, V, n, v));
    const double lse = std::log(sum);
    if (target >= 0) out.losses[std::size_t(n)] = lse - at(logits, V, n, target);
    out.loss += out.losses[std::size_t(n)];
    for (std::int64_t v = 0; v < V; ++v) {
      double& l = at(logits, V, n, v);
      l = target < 0 ? 0 : grad_scale * (std::exp(l - lse) - (v == target ? 1 : 0));
    }
  }
  linear_backward(x, w, logits, D, V, &out.dx, &out.dw, &db);
  return out;
}

}  // namespace zt::reference
