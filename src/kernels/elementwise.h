// Copies and casts between f32, bf16 and f16, and sums. Rows may be strided; shapes are equal.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

// y = x, rounded to y's dtype (nearest even).
struct Cast {
  View x, y;
};

// y = a + b, one dtype; y may be the same memory as a or b.
struct Add {
  View a, b, y;
};

}  // namespace zt::kernels
