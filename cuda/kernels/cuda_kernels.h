// The CUDA backend's class; each method is defined in the file named after its kernel's header, linear in
// linear.cpp, attention in attention*.cu.
//
// Views point to device memory, and so do SumSquares::result and CrossEntropyHead::loss_sum. A call checks shapes,
// enqueues work on the stream of the calling thread (device/stream.h) and returns: it waits for nothing and
// allocates nothing. Ids (tokens, positions, targets) are checked by the data room, not here.
//
// The same call on the same numbers gives the same bits every time: sums are made of partial sums over ranges that
// depend on shapes only, added in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/kernels.h"

namespace zt::kernels {

// Device memory that one stream's kernels use one after the other: workspace of matrix products, partial sums,
// lists. What a call leaves there is lost to the next.
struct CudaScratch {
  std::byte* data = nullptr;  // 256-byte aligned
  std::int64_t bytes = 0;

  // The first `count` elements; refuses what doesn't fit.
  template <typename T>
  T* first(std::int64_t count, const char* kernel) const {
    return static_cast<T*>(place(count * std::int64_t(sizeof(T)), kernel));
  }

 private:
  void* place(std::int64_t wanted, const char* kernel) const;
};

class CudaKernels final : public Kernels {
 public:
  static constexpr std::int64_t kScratchBytes = kGpuWorkspaceBytes;

  // Claims `streams` times `scratch_bytes` of device memory: as many streams may launch kernels that need scratch
  // (all but casts, sums, activations, rope, dropout and adamw). One calling thread a stream.
  explicit CudaKernels(int streams = 1, std::int64_t scratch_bytes = kScratchBytes);
  ~CudaKernels() override;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

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
  // The scratch of all streams.
  std::int64_t held_bytes() const override;

  // Of the calling thread's stream.
  CudaScratch scratch();

 private:
  struct Products;  // cuBLASLt's handle and algorithms by shape, in linear.cpp
  struct Claims;    // which stream holds which part of the scratch
  // Shared only because a shared_ptr remembers how to delete a type that is complete in one file alone.
  static std::shared_ptr<Products> make_products();
  std::shared_ptr<Claims> claims_;
  std::shared_ptr<Products> products_;
};

}  // namespace zt::kernels
