// The Llama block, also of Mistral and Qwen: RMS norms, rotary positions, grouped heads, SwiGLU MLP; biases
// and query/key norms where the model has them.
#pragma once

#include "layers/attention_part.h"

namespace zt::layers {

//   h = x + o_proj(attention(rope(qkv(norm(x)))))        y = h + down(silu(gate(n)) up(n)),  n = norm(h)
// Sources: Touvron et al. 2023 (Llama 2), section 2.2; Hugging Face's LlamaDecoderLayer, Qwen3Attention for
// q/k norms.
class LlamaBlock final : public Block {
 public:
  LlamaBlock(const RunContext& run, int index) : run_(run), index_(index), attention_(run, index) {}
  void forward(const BlockData& data) override;
  void recompute(const BlockData& data) override { forward(data); }
  void backward(const BlockData& data) override;

 private:
  // Query/key norms and rotation between the qkv product and attention, and their gradients.
  void turn(const BlockData& data) const;
  void turn_back(const BlockData& data, View dqkv) const;
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
