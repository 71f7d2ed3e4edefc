// AdamW on a slice of n parameters.
//
//   g' = grad_scale g
//   m = b1 m + (1 - b1) g'      v = b2 v + (1 - b2) g'^2
//   p = p - lr decay p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// Source: Loshchilov & Hutter 2019, alg. 2 (decoupled decay; lr multiplies the decay, as in PyTorch). t
// counts from 1. p, m, v are f32 vectors, g f32 or bf16; p is the fp32 master. w (any float format), when
// present, gets p rounded.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct AdamW {
  View p_n, m_n, v_n, g_n, w_n;
  float lr = 0.f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, decay = 0.f, grad_scale = 1.f;
  std::int64_t t = 1;
};

// sum_n x^2 in fp64, in an order that does not depend on the number of threads; not finite if any x is not.
struct SumSquares {
  View x_n;  // f32 or bf16
  double* result = nullptr;
};

}  // namespace zt::kernels
