// The CPU backend's class; each method is defined in the file named after its kernel's header.
#pragma once

#include "kernels/kernels.h"

namespace zt::kernels {

class CpuKernels final : public Kernels {
 public:
  CpuKernels();
  ~CpuKernels() override;
  void linear(const Linear&) override;
  void linear_backward(const LinearGrad&) override;
  void rms_norm(const RmsNorm&) override;
  void rms_norm_backward(const RmsNormGrad&) override;
  void layer_norm(const LayerNorm&) override;
  void layer_norm_backward(const LayerNormGrad&) override;
  void rope(const Rope&) override;
  void attention(const Attention&) override;
  void attention_backward(const AttentionGrad&) override;
  void attention_decode(const AttentionDecode&) override;
  void gelu(const Gelu&) override;
  void gelu_backward(const GeluGrad&) override;
  void swiglu(const SwiGlu&) override;
  void swiglu_backward(const SwiGluGrad&) override;
  void embedding(const Embedding&) override;
  void embedding_backward(const EmbeddingGrad&) override;
  void dropout(const Dropout&) override;
  void cross_entropy_head(const CrossEntropyHead&) override;
  void adamw(const AdamW&) override;
  void sum_squares(const SumSquares&) override;
  void cast(const Cast&) override;
  void add(const Add&) override;

 private:
  struct MatmulCache;  // oneDNN primitives by shape, in linear.cpp
  std::unique_ptr<MatmulCache> matmuls_;
};

}  // namespace zt::kernels
