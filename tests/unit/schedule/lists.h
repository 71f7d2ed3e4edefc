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
    return BlockFacts{input, saved, 2 * weights, 4 * weights, 12 * weights};
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

// What a list for several ranks looks like: gathers and reductions on the comm lane.
struct TwoLanes {
  Gathers gathers = {};
  ReduceEvery reduce = ReduceEvery::micro;
  Policy policy = {};
};

inline Schedule plan_two_lanes(const StepFacts& f, const TwoLanes& o) {
  Schedule s = with_recompute(train_order(f), f, o.policy);
  s = with_reductions(std::move(s), f, o.reduce);
  s = with_gathers(std::move(s), f, o.gathers);
  return with_waits(place(with_update(std::move(s), f)));
}

inline std::vector<TwoLanes> all_two_lanes() {
  std::vector<TwoLanes> all;
  for (int prefetch : {0, 1, 2, 3})
    for (bool reshard : {true, false})
      for (ReduceEvery reduce : {ReduceEvery::micro, ReduceEvery::step})
        for (const Policy& policy : {Policy{Recompute::none, 1}, Policy{Recompute::full, 1},
                                     Policy{Recompute::every, 2}, Policy{Recompute::sqrt, 1}})
          all.push_back({{prefetch, reshard}, reduce, policy});
  return all;
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
