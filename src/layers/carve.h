// Turns the plan's buffer tables and a block's flat weights into views.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "layers/block.h"

namespace zt::layers {

// The buffers of one set at one address.
class Carved {
 public:
  Carved(plan::BufferSet set, void* base, Dtype dtype)
      : set_(std::move(set)), base_(static_cast<char*>(base)), dtype_(dtype) {}
  // A view of the named buffer; elements of 4 bytes are f32 (statistics), others of the run's dtype.
  View operator[](std::string_view name) const {
    const plan::Buffer& b = set_.at(name);
    return {base_ + b.offset, b.element_bytes == 4 ? Dtype::f32 : dtype_, b.rows, b.cols};
  }
  bool has(std::string_view name) const {
    for (const plan::Buffer& b : set_.list()) {
      if (b.name == name) return true;
    }
    return false;
  }

 private:
  plan::BufferSet set_;
  char* base_;
  Dtype dtype_;
};

// Weights and gradients of one flat block by role. Tensors that lie side by side can be read as one taller
// matrix.
class Params {
 public:
  Params(const spec::BlockSpec& block, const void* weights, float* grads, Dtype dtype)
      : block_(&block),
        weights_(const_cast<char*>(static_cast<const char*>(weights))),
        grads_(grads),
        dtype_(dtype) {}

  View w(std::string_view role) const { return w(role, role); }
  View g(std::string_view role) const { return g(role, role); }
  // The tensors from `first` to `last`, which lie side by side: their rows stacked (vectors: joined).
  View w(std::string_view first, std::string_view last) const {
    const Extent e = extent(first, last);
    return {weights_ + e.offset * size_of(dtype_), dtype_, e.rows, e.cols};
  }
  View g(std::string_view first, std::string_view last) const {
    if (grads_ == nullptr || frozen(first, last)) return {};
    const Extent e = extent(first, last);
    return {grads_ + e.offset, Dtype::f32, e.rows, e.cols};
  }
  // Gradients of frozen tensors are absent; of neighbours that are one matrix, when all are frozen.
  bool frozen(std::string_view first, std::string_view last) const {
    const spec::TensorSpec &a = block_->at(first), &b = block_->at(last);
    for (const spec::TensorSpec& tensor : block_->tensors)
      if (tensor.offset >= a.offset && tensor.offset <= b.offset && tensor.trainable) return false;
    return true;
  }
  // Absent views where the model has no such tensor (a bias).
  View w_or_none(std::string_view first, std::string_view last) const {
    return block_->find(first) ? w(first, last) : View();
  }
  View g_or_none(std::string_view first, std::string_view last) const {
    return block_->find(first) ? g(first, last) : View();
  }
  View w_or_none(std::string_view role) const { return w_or_none(role, role); }
  View g_or_none(std::string_view role) const { return g_or_none(role, role); }

 private:
  struct Extent {
    std::int64_t offset, rows, cols;
  };
  Extent extent(std::string_view first, std::string_view last) const {
    const spec::TensorSpec &a = block_->at(first), &b = block_->at(last);
    const std::int64_t elements = b.offset + b.elements() - a.offset;
    if (a.shape.size() == 1) return {a.offset, 1, elements};
    return {a.offset, elements / a.shape[1], a.shape[1]};
  }

  const spec::BlockSpec* block_;
  char* weights_;
  float* grads_;
  Dtype dtype_;
};

inline plan::RunShape shape_of(const RunContext& run, const BlockData& data) {
  return {data.x_ND.rows, size_of(run.dtype), run.dropout > 0.f, run.selective};
}
// The pieces every transformer block takes apart at the start of a call.
inline Carved saved(const RunContext& run, const BlockData& data) {
  return {plan::saved_buffers(*run.model, shape_of(run, data)), data.saved, run.dtype};
}
inline Carved forward_scratch(const RunContext& run, const BlockData& data) {
  return {plan::forward_scratch(*run.model, shape_of(run, data)), data.workspace, run.dtype};
}
inline Carved backward_scratch(const RunContext& run, const BlockData& data) {
  return {plan::backward_scratch(*run.model, shape_of(run, data)), data.workspace, run.dtype};
}
inline Carved mlp_scratch(const RunContext& run, const BlockData& data, const Carved& scratch) {
  return {plan::mlp_backward_scratch(*run.model, shape_of(run, data)), scratch["shared"].data, run.dtype};
}
inline Carved attention_scratch(const RunContext& run, const BlockData& data, const Carved& scratch) {
  return {plan::attention_backward_scratch(*run.model, shape_of(run, data)), scratch["shared"].data,
          run.dtype};
}
// One of plan::remade_buffers: kept, or, where recomputation is selective, in scratch until the next one is asked
// for.
inline View remade(const RunContext& run, const BlockData& data, std::string_view name, const Carved& saved,
                   const Carved& scratch) {
  if (!run.selective) return saved[name];
  for (const plan::Buffer& b : plan::remade_buffers(*run.model, shape_of(run, data)))
    if (b.name == name) return {scratch["remade"].data, run.dtype, b.rows, b.cols};
  throw Error(Blame::bug, cat("the buffer '", name, "' is not made again"));
}
// `index` counts transformer blocks from 0; block 0 of the model is the embedding.
inline Params params(const RunContext& run, int index, const BlockData& data) {
  return {run.model->blocks[static_cast<std::size_t>(index) + 1], data.weights, data.grads, run.dtype};
}

}  // namespace zt::layers
