// AdamW as Loshchilov & Hutter 2019 write it in algorithm 2, with the decay times the learning rate as in
// torch.optim.AdamW.
#pragma once

#include <cmath>

#include "reference/matrix.h"

namespace zt::reference {

struct AdamWState {
  Vec p, m, v;
};

struct AdamWSettings {
  double lr, beta1, beta2, eps, decay, grad_scale;
};

inline void adamw(AdamWState& s, const Vec& g, const AdamWSettings& a, int t) {
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double scaled = a.grad_scale * g[i];
    s.m[i] = a.beta1 * s.m[i] + (1 - a.beta1) * scaled;
    s.v[i] = a.beta2 * s.v[i] + (1 - a.beta2) * scaled * scaled;
    const double m_hat = s.m[i] / (1 - std::pow(a.beta1, t)), v_hat = s.v[i] / (1 - std::pow(a.beta2, t));
    s.p[i] -= a.lr * a.decay * s.p[i] + a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
  }
}

}  // namespace zt::reference
