// Matrix products of a linear layer.  N = tokens, I = input features, O = output features.
//
//   y_NO = x_NI w^T + b_O          w_OI as Hugging Face nn.Linear stores it; with `w_is_IO`, w_IO as GPT-2's
//   Conv1D.
//
// x, w, b share one dtype (f32, bf16 or f16); y is that dtype or f32. Sums in fp32 at least. `b_O` may be absent.
// Rows may be strided (columns of a wider matrix); weights are contiguous.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct Linear {
  View x_NI, w_OI, b_O, y_NO;
  bool w_is_IO = false;
  bool accumulate = false;  // y += instead of y =: y holds the residual
};

// dx = dy w (overwritten, or added to with `accumulate_dx`; absent: not wanted).
// dw += dy^T x and db += sum_N dy are f32 and always added to, so gradient accumulation costs no extra pass. Each
// may be absent, x as well where dw is, and w where dx is.
struct LinearGrad {
  View x_NI, w_OI, dy_NO;
  View dx_NI, dw_OI, db_O;
  bool w_is_IO = false;
  bool accumulate_dx = false;
};

}  // namespace zt::kernels
