// The blocks of a model over views: hand-written forward, recompute and backward. A block knows kernels and
// its own shapes; it owns no memory and knows nothing of ranks or of the order in which it is called.
//
// Letters: N tokens of a micro-batch, D width, F hidden width of the MLP, H query heads, K key/value heads, d
// head size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/kernels.h"
#include "plan/buffers.h"
#include "spec/model.h"
#include "tensor/view.h"

namespace zt::layers {

// One micro-batch as the blocks see it. `target_N` is what each position must predict, negative where
// nothing.
struct BatchView {
  View tokens_N, positions_N, target_N;  // i32
  std::span<const std::int32_t> bounds;  // document bounds, from 0 to N
  // Token n has the number first_row + row_N[n] in the global batch of the step: dropout counts by it.
  std::int64_t first_row = 0;
  View row_N = {};  // i32; absent: n itself
  // Of each token's document the first token and the one past the last, i32, for devices that cannot read `bounds`.
  View begin_N = {}, end_N = {};
};

// Keys and values of the tokens before, for generation: [capacity, K*d] each, `length` rows in use.
struct KvCache {
  View k_LKd, v_LKd;
  std::int64_t length = 0;
};

// What one op hands to a block. Fields that an op does not use stay empty.
struct BlockData {
  View x_ND;                      // the block's input
  View y_ND;                      // its output; absent in a recompute whose output nobody needs
  View d_ND;                      // in place: gradient of the output on entry, of the input on return
  void* saved = nullptr;          // plan::saved_buffers
  void* workspace = nullptr;      // plan::forward_scratch, backward_scratch, ...
  const void* weights = nullptr;  // the flat block, in the run's dtype
  float* grads = nullptr;         // the flat block's gradients, added to
  const BatchView* batch = nullptr;
  KvCache* cache = nullptr;  // generation: x holds one new token
  std::uint32_t step = 0;
  bool training = false;  // evaluation and generation use no dropout
};

// What all blocks of a run share.
struct RunContext {
  kernels::Kernels* kernels = nullptr;
  const spec::ModelSpec* model = nullptr;
  Dtype dtype = Dtype::f32;
  float dropout = 0.f;  // of attention probabilities and of each branch before its residual add
  std::uint64_t seed = 0;
  View cos_Pd2, sin_Pd2;   // rotary tables, f32; absent for learned positions
  bool selective = false;  // what plan::remade_buffers lists is made again in backward
};

class Block {
 public:
  virtual ~Block() = default;
  virtual void forward(const BlockData&) = 0;
  // Fills `saved` again (and y where present) exactly as forward did.
  virtual void recompute(const BlockData&) = 0;
  virtual void backward(const BlockData&) = 0;
};

std::unique_ptr<Block> make_embedding(const RunContext& run);
// `index` counts transformer blocks from 0.
std::unique_ptr<Block> make_transformer_block(const RunContext& run, int index);

}  // namespace zt::layers
