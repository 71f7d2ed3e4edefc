// Runs checks that work on host memory against the CUDA backend: each call copies what its views cover to the device,
// runs the kernel there, waits, and copies everything back.
#pragma once

#include <memory>

#include "kernels/cuda_kernels.h"

namespace zt::cuda_test {

// Where a view's first element lies in device memory.
enum class Placement {
  as_given,  // as far from a 16-byte boundary as on the host, with guard zones that must keep their pattern
  aligned,   // on a 256-byte boundary where it is not part of another view; nothing before it or behind it
};

class OnDevice final : public kernels::Kernels {
 public:
  explicit OnDevice(Placement placement);
  ~OnDevice() override;

  void linear(const kernels::Linear&) override;
  void linear_backward(const kernels::LinearGrad&) override;
  void rms_norm(const kernels::RmsNorm&) override;
  void rms_norm_backward(const kernels::RmsNormGrad&) override;
  void layer_norm(const kernels::LayerNorm&) override;
  void layer_norm_backward(const kernels::LayerNormGrad&) override;
  void rope(const kernels::Rope&) override;
  void attention(const kernels::Attention&) override;
  void attention_backward(const kernels::AttentionGrad&) override;
  void attention_decode(const kernels::AttentionDecode&) override;
  void gelu(const kernels::Gelu&) override;
  void gelu_backward(const kernels::GeluGrad&) override;
  void swiglu(const kernels::SwiGlu&) override;
  void swiglu_backward(const kernels::SwiGluGrad&) override;
  void embedding(const kernels::Embedding&) override;
  void embedding_backward(const kernels::EmbeddingGrad&) override;
  void dropout(const kernels::Dropout&) override;
  void cross_entropy_head(const kernels::CrossEntropyHead&) override;
  void adamw(const kernels::AdamW&) override;
  void sum_squares(const kernels::SumSquares&) override;
  void cast(const kernels::Cast&) override;
  void add(const kernels::Add&) override;
  std::int64_t held_bytes() const override;

 private:
  class Device;
  std::unique_ptr<Device> device_;
};

}  // namespace zt::cuda_test
