// What every backend's AdamW multiplies with.
#pragma once

#include <cmath>

#include "kernels/adamw.h"

namespace zt::kernels {

// The step's numbers, worked out once in fp64.
struct AdamWFactors {
  explicit AdamWFactors(const AdamW& a)
      : beta1(a.beta1),
        beta2(a.beta2),
        fresh1(float(1.0 - double(a.beta1))),
        fresh2(float(1.0 - double(a.beta2))),
        keep(float(1.0 - double(a.lr) * double(a.decay))),
        step(float(double(a.lr) / (1.0 - std::pow(double(a.beta1), double(a.t))))),
        root2(float(1.0 / std::sqrt(1.0 - std::pow(double(a.beta2), double(a.t))))),
        eps(a.eps),
        grad_scale(a.grad_scale) {}
  float beta1, beta2, fresh1, fresh2, keep, step, root2, eps, grad_scale;
};

}  // namespace zt::kernels
