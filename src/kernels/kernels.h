// Everything a backend must be able to compute. Pure virtual, so a backend that forgets a kernel does not
// compile. The contract of each kernel (formula, shapes, what is overwritten, what is added to) stands in its
// own header.
//
// Gradients of weights (dw, db, dg, dwte, dwpe) may be absent, each by itself: the tensor is frozen, and its
// gradient isn't computed. The other results then have the same bits as with it. What only an absent gradient
// needs (x of a linear layer, the ids of an embedding) may be absent too.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

namespace zt::kernels {

class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void linear(const Linear&) = 0;
  virtual void linear_backward(const LinearGrad&) = 0;
  virtual void rms_norm(const RmsNorm&) = 0;
  virtual void rms_norm_backward(const RmsNormGrad&) = 0;
  virtual void layer_norm(const LayerNorm&) = 0;
  virtual void layer_norm_backward(const LayerNormGrad&) = 0;
  virtual void rope(const Rope&) = 0;
  virtual void attention(const Attention&) = 0;
  virtual void attention_backward(const AttentionGrad&) = 0;
  virtual void attention_decode(const AttentionDecode&) = 0;
  virtual void gelu(const Gelu&) = 0;
  virtual void gelu_backward(const GeluGrad&) = 0;
  virtual void swiglu(const SwiGlu&) = 0;
  virtual void swiglu_backward(const SwiGluGrad&) = 0;
  virtual void embedding(const Embedding&) = 0;
  virtual void embedding_backward(const EmbeddingGrad&) = 0;
  virtual void dropout(const Dropout&) = 0;
  virtual void cross_entropy_head(const CrossEntropyHead&) = 0;
  virtual void adamw(const AdamW&) = 0;
  virtual void sum_squares(const SumSquares&) = 0;
  virtual void cast(const Cast&) = 0;
  virtual void add(const Add&) = 0;

  // Bytes that the kernels hold for themselves: see tile_bytes and kGpuWorkspaceBytes.
  virtual std::int64_t held_bytes() const = 0;
};

// The CPU backend: oneDNN for matrix products, own OpenMP loops for the rest. Claims the tiles of `dtype` at
// once; nothing else is allocated per call once a shape has been seen.
std::unique_ptr<Kernels> make_cpu_kernels(Dtype dtype = Dtype::f32);

// Bytes of the tiles through which the CPU backend multiplies numbers of `dtype` that this processor cannot
// multiply itself, whatever the shapes: float16, and bfloat16 on processors without products of it; otherwise 0.
std::int64_t tile_bytes(Dtype dtype);

// Bytes of a GPU that the CUDA backend claims for a rank: what cuBLASLt's fastest algorithms on sm_90 ask for.
inline constexpr std::int64_t kGpuWorkspaceBytes = std::int64_t{32} << 20;

}  // namespace zt::kernels
