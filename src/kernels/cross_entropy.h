// The language-model head with its loss, forward and backward in one pass over chunks of tokens: logits exist
// for C tokens at a time, never for all.  N = tokens, D = width, V = vocabulary, C = tokens of a chunk.
//
//   logits_CV = x_CD w_VD^T;   loss = sum over supervised n of (logsumexp(logits_n) - logits_n[target_n])
//   dlogits = grad_scale (softmax(logits) - onehot(target))  on supervised rows, 0 on others
//   dx = dlogits w (overwritten)      dw += dlogits^T x (f32, added to)
//
// target_N is i32, already shifted: target_n is what position n must predict; negative = not supervised. The
// loss is a sum, never a mean: the one denominator of a step is the caller's (it is in grad_scale). x and w
// are f32, bf16 or f16; logits, softmax and sums are fp32. Indices over tokens x vocabulary are 64-bit.
//
// With a loss scale S, grad_scale is S / tokens: dlogits is where scaled gradients first meet the narrow format,
// so an S too large for f16 shows as infinities there and in dx and dw, and one too small as zeros.
#pragma once

#include "tensor/view.h"

namespace zt::kernels {

struct CrossEntropyHead {
  View x_ND, w_VD, target_N;
  float grad_scale = 1.f;
  View dx_ND, dw_VD;           // both absent: evaluation, no backward; only dw absent: the head is frozen
  View loss_N;                 // f32, optional: each token's loss, 0 where not supervised
  double* loss_sum = nullptr;  // overwritten
  View logits_CV;              // f32 workspace; its rows are the chunk size C
  View dlogits_CV;             // workspace of x's dtype, needed when that isn't f32 and dx is wanted
};

}  // namespace zt::kernels
