// The last block: final norm, language-model head and loss, forward and backward in one call.
#pragma once

#include "layers/block.h"

namespace zt::layers {

struct HeadData {
  BlockData block;                          // x_ND; d_ND is overwritten with dx where present
  const void* embedding_weights = nullptr;  // tied models: the flat embedding block and its gradients
  float* embedding_grads = nullptr;
  float grad_scale = 1.f;
  double* loss_sum = nullptr;  // overwritten
  View loss_N;                 // optional, each token's loss
};

class Head {
 public:
  explicit Head(const RunContext& run) : run_(run) {}
  // The summed loss of the supervised tokens; with block.d_ND also all gradients.
  void loss(const HeadData&) const;
  // logits_NV (f32) of every row of x.
  void logits(const HeadData&, View logits_NV) const;

 private:
  RunContext run_;
};

}  // namespace zt::layers
