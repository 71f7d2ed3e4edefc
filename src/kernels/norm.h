// Norms over groups of D features.  N = tokens, D = normalised width, H = groups in a row (x has H*D columns;
// H = 1 for the norms of the residual stream, the number of heads for query/key norms).
//
//   RMS norm    r = 1 / sqrt(mean_D(x^2) + eps)              y = x r g
//   layer norm  m = mean_D(x), r = 1 / sqrt(var_D(x) + eps)  y = (x - m) r g + b       (biased variance)
//
// Sources: Zhang & Sennrich 2019 eq. 4 (eps inside the root, as Llama does); Ba, Kiros & Hinton 2016 eq. 4.
// Sums in fp32. Saved for backward, f32: mean_NH (layer norm only) and r_NH. y may be the same memory as x.
// x, g, b, y share one dtype (f32, bf16 or f16).
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct RmsNorm {
  View x_ND, g_D, y_ND, r_NH;
  float eps = 1e-5f;
};

// dx is overwritten, or added to with `accumulate_dx` (the residual's gradient); it may be the same memory as
// dy when overwritten. dg_D (f32) is added to; absent: not wanted. Gradient sums do not depend on the number of
// threads.
struct RmsNormGrad {
  View x_ND, g_D, r_NH, dy_ND;
  View dx_ND, dg_D;
  bool accumulate_dx = false;
};

struct LayerNorm {
  View x_ND, g_D, b_D, y_ND, mean_NH, r_NH;  // b_D may be absent
  float eps = 1e-5f;
};

struct LayerNormGrad {
  View x_ND, g_D, mean_NH, r_NH, dy_ND;
  View dx_ND, dg_D, db_D;  // dg_D and db_D are f32 and added to; each may be absent
  bool accumulate_dx = false;
};

}  // namespace zt::kernels
