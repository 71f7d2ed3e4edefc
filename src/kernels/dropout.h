// Dropout with counter-based masks.  N = tokens, D = width.
//
//   y = x / (1 - p) where kept, else 0;  element (first_row + row_n, d) of the stream decides, so a recomputation
//   and any split of the rows over ranks repeat the same mask. Backward is the same kernel on the gradient.
//   row_n is n where row_N is absent.
//
// Source: Srivastava et al. 2014 section 4 (inverted form). f32, bf16 or f16; y may be the same memory as x.
#pragma once

#include "base/random.h"
#include "tensor/view.h"

namespace zt::kernels {

struct Dropout {
  View x_ND, y_ND;
  float p = 0.f;
  RandomStream random;
  std::int64_t first_row = 0;
  bool accumulate = false;  // y += instead of y =: y holds the residual
  View row_N;               // i32, not negative
};

}  // namespace zt::kernels
