// The GPT-2 block: pre-norm layer norms, fused qkv, GELU MLP, biases where the model has them.
#pragma once

#include "layers/attention_part.h"

namespace zt::layers {

//   h = x + proj(attention(qkv(ln_1(x))))        y = h + proj(gelu(fc(ln_2(h))))
// Source: Radford et al. 2019 (GPT-2), section 2.3; names as in Hugging Face's GPT2Block.
class GptBlock final : public Block {
 public:
  GptBlock(const RunContext& run, int index) : run_(run), index_(index), attention_(run, index) {}
  void forward(const BlockData& data) override;
  void recompute(const BlockData& data) override { forward(data); }
  void backward(const BlockData& data) override;

 private:
  // What plan::remade_buffers lists: made in forward, and again in backward where recomputation is selective.
  void first_norm(const BlockData& data, View norm_ND) const;
  void second_norm(const BlockData& data, View norm_ND) const;
  void activation(const BlockData& data, View y_NF) const;
  void mlp_backward(const BlockData& data) const;
  void attention_backward(const BlockData& data) const;

  RunContext run_;
  int index_;
  AttentionPart attention_;
};

}  // namespace zt::layers
