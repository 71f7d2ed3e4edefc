// The CPU backend's class; each method is defined in the file named after its kernel's header.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace zt::kernels {

// One caller at a time: kernels use all OpenMP threads themselves and share the scratch below.
class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(Dtype dtype);
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
  std::int64_t held_bytes() const override;

 private:
  struct MatmulCache;       // oneDNN primitives by shape, in linear.cpp
  struct AttentionScratch;  // tiles of each thread, in attention.cpp
  // Shared only because a shared_ptr remembers how to delete a type that is complete in one file alone.
  static std::shared_ptr<MatmulCache> make_matmul_cache(Dtype dtype);
  static std::shared_ptr<AttentionScratch> make_attention_scratch();
  std::shared_ptr<MatmulCache> matmuls_;
  std::shared_ptr<AttentionScratch> attention_;
  std::vector<double> losses_;  // of a chunk of cross_entropy_head
  std::vector<float> widened_;  // of bf16 numbers whose squares are added
};

}  // namespace zt::kernels
