// The settings that shape a step, and the facts about the model that it needs. Facts come from outside: this
// room does not know what a tensor is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zt::schedule {

struct BlockFacts {
  std::int64_t input_bytes =
      0;  // X.k: the block's input for one micro-batch; 0 for b0 (tokens are in `batch`)
  std::int64_t saved_bytes = 0;  // S.k: what forward keeps for backward beside X.k; for the head: its scratch
  std::int64_t weight_bytes = 0;      // P.k: all weights, or this rank's slice of them
  std::int64_t gathered_bytes = 0;    // W.k: all weights, padded to equal slices
  std::int64_t grad_bytes = 0;        // R.k: the whole gradient, or this rank's slice of it
  std::int64_t whole_grad_bytes = 0;  // G.k: the whole gradient in fp32, padded to equal slices
  std::int64_t optimizer_bytes = 0;   // O.k: fp32 master copy (where there is one) and moments
  bool trainable = true;              // false: no gradient, no optimizer state
};

struct StepFacts {
  std::vector<BlockFacts> blocks;  // b0 .. b(L+1): at least embedding and head
  int micros = 1;                  // micro-batches of one step
  bool tied = false;               // the head also reads the embedding's weights and adds to its gradient
  int ranks = 1;
  bool sliced_update = false;  // a rank updates its slice only, so that updated weights must be gathered
  std::int64_t workspace_bytes =
      0;                         // scratch of the largest op; the compute lane's own, so ops don't name it
  std::int64_t batch_bytes = 0;  // tokens, targets, document bounds of the step
  std::int64_t loss_bytes = 64, norm_bytes = 64;
  std::map<std::string, std::int64_t> other_permanent;  // counted against memory_bytes, e.g. {"tables": 4096}
  std::int64_t memory_bytes = 0;                        // what the device offers; 0 = not limited

  int transformer_blocks() const { return int(blocks.size()) - 2; }  // L
  int head_block() const { return int(blocks.size()) - 1; }          // L + 1
  // The first block that is trained; backward goes down to it. With nothing to train: one past the head.
  int lowest_trained() const {
    int k = 0;
    while (k <= head_block() && !blocks[std::size_t(k)].trainable) ++k;
    return k;
  }
};

// Which transformer blocks drop their inner activations S in forward and recompute them for backward.
enum class Recompute : std::uint8_t {
  none,
  full,   // every block
  every,  // every k-th block: k, 2k, ...
  sqrt,   // segments of ceil(sqrt(L)) blocks that keep only the segment's input. Chen et al. 2016, section 4
};

// When gradients are summed over ranks. With `micro` they arise whole in G and only the sum is kept, in R; with
// `step` they add up in a whole R, which is reduced in place.
enum class ReduceEvery : std::uint8_t { micro, step };

// What moves between ranks, and when. Only for several ranks.
struct Zero {
  bool gather_weights = false;        // stage 3: each use of a block's weights gathers them
  int prefetch = 1;                   // so many uses ahead
  bool reshard_after_forward = true;  // false: once gathered, weights stay for the step
  int keep_blocks = 0;                // so many last transformer blocks stay between forward and backward
  ReduceEvery reduce = ReduceEvery::step;
};

struct Policy {
  Recompute recompute = Recompute::none;
  int every = 1;  // k of Recompute::every
  Zero zero = {};
  bool grads_apart = false;  // R is not fp32, so gradients arise in G first
};

std::string name(const Policy& policy);  // of the recomputation: "none", "full", "every 2", "sqrt"

}  // namespace zt::schedule
