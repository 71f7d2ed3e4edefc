// Which buffers a block keeps between its forward and its backward, and which it needs only inside one call:
// names, shapes and bytes. The memory bill, the arena and the layers all read these tables, so the plan is
// what the run does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spec/model.h"

namespace zt::plan {

// The shape of a run's micro-batch. N = tokens of a micro-batch on one rank.
struct RunShape {
  std::int64_t tokens = 0;
  int element_bytes = 4;  // of weights and activations: 4 (f32) or 2 (bf16)
  bool dropout = false;
  bool selective = false;  // recomputation inside the blocks: see remade_buffers
  bool spans = false;      // a GPU holds where each token's document begins and ends
};

// One buffer: a [rows, cols] matrix at an offset (bytes) from the set's start.
struct Buffer {
  std::string_view name;
  std::int64_t rows, cols;
  int element_bytes;
  std::int64_t offset;
};

// Buffers laid out one after another, each on a 64-byte boundary.
class BufferSet {
 public:
  void add(std::string_view name, std::int64_t rows, std::int64_t cols, int element_bytes);
  const Buffer& at(std::string_view name) const;  // Error(bug) when there is none
  const std::vector<Buffer>& list() const { return list_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<Buffer> list_;
  std::int64_t bytes_ = 0;
};

// S: what a transformer block's forward keeps for its backward.
BufferSet saved_buffers(const spec::ModelSpec& model, const RunShape& run);
// What one element-wise pass makes again from what is kept: the norms' outputs (from the block's input, or the
// middle of the residual stream) and the MLP's activation (from its input). Selective recomputation saves none
// of it; forward's and backward's scratch then have a buffer "remade" where these lie, one at a time.
// Korthikanti et al. 2022, section 5, drop the scores, probabilities and dropout masks of attention; these are
// never stored here under any policy, so that what is left to choose from is element-wise.
std::vector<Buffer> remade_buffers(const spec::ModelSpec& model, const RunShape& run);
// Scratch of a transformer block's forward and of its backward.
BufferSet forward_scratch(const spec::ModelSpec& model, const RunShape& run);
BufferSet backward_scratch(const spec::ModelSpec& model, const RunShape& run);
// What lies in the backward scratch's buffer "shared", first for the MLP, then for the attention.
BufferSet mlp_backward_scratch(const spec::ModelSpec& model, const RunShape& run);
BufferSet attention_backward_scratch(const spec::ModelSpec& model, const RunShape& run);
// Scratch of the head: the final norm, one chunk of logits and its gradient. The embedding needs none.
BufferSet head_scratch(const spec::ModelSpec& model, const RunShape& run);

// Tokens whose logits are made at once: about 64 MiB of fp32 logits, at least 64 tokens.
std::int64_t head_chunk(const spec::ModelSpec& model, const RunShape& run);

// The largest scratch of any op: one such workspace serves all, since ops on the compute lane run one at a
// time.
std::int64_t workspace_bytes(const spec::ModelSpec& model, const RunShape& run);

}  // namespace zt::plan
