// Token (and learned position) embedding.  N = tokens, V = vocabulary, P = positions, D = width.
//
//   y_n = wte[token_n] + wpe[position_n]
//
// tokens, positions are i32; wte, wpe, y one dtype (f32, bf16 or f16); wpe may be absent. Ids are checked by the
// data room.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct Embedding {
  View tokens_N, positions_N, wte_VD, wpe_PD, y_ND;
};

// dwte and dwpe (f32) are added to, in an order that does not depend on the number of threads. Each may be
// absent, its ids as well.
struct EmbeddingGrad {
  View tokens_N, positions_N, dy_ND;
  View dwte_VD, dwpe_PD;
};

}  // namespace zt::kernels
