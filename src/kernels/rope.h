// Rotary position embedding, in place, Hugging Face layout (feature i pairs with i + d/2).
// N = tokens, H = heads, d = head size, P = positions in the table.
//
//   (x_i, x_{i+d/2})  <-  (x_i c - x_{i+d/2} s,  x_{i+d/2} c + x_i s)       c, s = cos, sin of position *
//   inv_freq_i
//
// Source: Su et al. 2021 (RoFormer) eq. 34; scaling of the frequencies is in the table (spec/rope.h).
// `inverse` rotates back: that is the backward pass.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct Rope {
  View x_NHd;             // f32, bf16 or f16, rows may be strided
  View positions_N;       // i32
  View cos_Pd2, sin_Pd2;  // f32, d/2 columns
  int head_size = 0;
  bool inverse = false;
};

}  // namespace zt::kernels
