// Models to plan for, and lists with two lanes, for the tests of this room.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/passes.h"

namespace zt::schedule::test {

// L transformer blocks with sizes in the proportions of GPT-2 124M (micro-batch 4 x 1024, bf16), scaled down.
inline StepFacts gpt(int L, int micros, bool tied = true) {
  StepFacts f;
  f.micros = micros;
  f.tied = tied;
  f.batch_bytes = 512;
  f.workspace_bytes = 1 << 16;
  const auto block = [](std::int64_t input, std::int64_t saved, std::int64_t weights) {
    return BlockFacts{input, saved, 2 * weights, 2 * weights, 4 * weights, 4 * weights, 12 * weights};
  };
  f.blocks.push_back(block(0, 0, 39000));
  for (int k = 0; k < L; ++k) f.blocks.push_back(block(6144, 104448, 7088));
  f.blocks.push_back(block(6144, 0, tied ? 2 : 38600));
  return f;
}

inline std::vector<Policy> all_policies() {
  return {{Recompute::none, 1},  {Recompute::full, 1},  {Recompute::every, 1},
          {Recompute::every, 2}, {Recompute::every, 3}, {Recompute::sqrt, 1}};
}

// A step over several ranks: facts and policy of a ZeRO stage.
struct OverRanks {
  StepFacts facts;
  Policy policy;
};

// `f` split over four ranks. Slices are padded to the alignment.
inline OverRanks over_ranks(StepFacts f, int stage, Policy policy = {}) {
  const auto slice = [](std::int64_t bytes) {
    return (bytes + 4 * kAlignment - 1) / (4 * kAlignment) * kAlignment;
  };
  f.ranks = 4;
  f.sliced_update = stage > 0;
  policy.zero.gather_weights = stage == 3;
  const bool whole_grads = stage == 0 || policy.zero.reduce == ReduceEvery::step;
  for (BlockFacts& b : f.blocks) {
    b.gathered_bytes = 4 * slice(b.weight_bytes);
    b.whole_grad_bytes = 4 * slice(b.grad_bytes);
    b.weight_bytes = stage == 3 ? slice(b.weight_bytes) : b.gathered_bytes;
    b.grad_bytes = (whole_grads ? 4 : 1) * slice(b.grad_bytes) / (policy.grads_apart ? 2 : 1);
    if (stage > 0) b.optimizer_bytes = slice(b.optimizer_bytes);
  }
  return {f, policy};
}

// Every way to split a step: stages, times of reduction, prefetch, what stays gathered, recomputation.
inline std::vector<OverRanks> all_over_ranks(const StepFacts& f) {
  std::vector<OverRanks> all;
  for (const Policy& from : {Policy{Recompute::none, 1}, Policy{Recompute::full, 1},
                             Policy{Recompute::every, 2}, Policy{Recompute::sqrt, 1}})
    for (ReduceEvery reduce : {ReduceEvery::micro, ReduceEvery::step})
      for (bool apart : {false, true}) {
        Policy policy = from;
        policy.zero.reduce = reduce;
        policy.grads_apart = apart;
        for (int stage : {0, 1, 2}) all.push_back(over_ranks(f, stage, policy));
        for (int prefetch : {0, 1, 2, 3})
          for (int keep : {0, 2, -1}) {
            policy.zero.prefetch = prefetch;
            policy.zero.keep_blocks = keep < 0 ? 0 : keep;
            policy.zero.reshard_after_forward = keep >= 0;
            if (!apart || prefetch == 1) all.push_back(over_ranks(f, 3, policy));
          }
      }
  return all;
}

// The first `frozen` blocks are not trained.
inline StepFacts with_frozen(StepFacts f, int frozen) {
  for (int k = 0; k < frozen; ++k) {
    f.blocks[std::size_t(k)].trainable = false;
    f.blocks[std::size_t(k)].grad_bytes = f.blocks[std::size_t(k)].whole_grad_bytes = 0;
    f.blocks[std::size_t(k)].optimizer_bytes = 0;
  }
  return f;
}

// The most bytes live at once in list order, sizes as they are: no placement can need less.
inline std::int64_t most_live_bytes(const Schedule& s) {
  std::int64_t live = 0, most = 0;
  for (const Op& op : s.ops) {
    for (SlotId slot : op.births) live += s.slots[std::size_t(slot)].bytes;
    most = std::max(most, live);
    for (SlotId slot : op.frees) live -= s.slots[std::size_t(slot)].bytes;
  }
  return most;
}

}  // namespace zt::schedule::test
