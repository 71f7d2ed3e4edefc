// Activations of the MLP.  N = tokens, F = hidden width.
//
//   GELU (tanh form)  y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))    Hendrycks & Gimpel 2016, section 2
//   SwiGLU            y = silu(gate) up,  silu(x) = x / (1 + exp(-x))      Shazeer 2020, eq. 6
//
// f32, bf16 or f16, computed in fp32. Rows may be strided.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct Gelu {
  View x_NF, y_NF;
};

// dx is overwritten; it may be the same memory as dy or x.
struct GeluGrad {
  View x_NF, dy_NF, dx_NF;
};

struct SwiGlu {
  View gate_NF, up_NF, y_NF;
};

// dgate and dup are overwritten; they may be the same memory as gate and up.
struct SwiGluGrad {
  View gate_NF, up_NF, dy_NF;
  View dgate_NF, dup_NF;
};

}  // namespace zt::kernels
