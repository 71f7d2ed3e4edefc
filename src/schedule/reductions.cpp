#include <map>
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {

Schedule with_reductions(Schedule s, const StepFacts& facts, ReduceEvery every) {
  const std::vector<SlotId> owned = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  std::map<std::pair<int, int>, std::vector<int>>
      makers;  // of G by block and micro-batch (-1: all): op indices
  for (int i = 0; i < int(s.ops.size()); ++i) {
    const Op& op = s.ops[std::size_t(i)];
    if (op.kind != OpKind::head && op.kind != OpKind::backward) continue;
    for (int k : weight_blocks(op, facts))
      makers[{k, every == ReduceEvery::micro ? op.micro : -1}].push_back(i);
  }

  std::map<int, std::vector<Op>> inserted;
  for (const auto& [id, ops] : makers) {
    const auto [k, micro] = id;
    const SlotId g = add_slot(s, SlotKind::G, k, micro, facts.blocks[std::size_t(k)].grad_bytes);
    for (int i : ops) {
      Op& op = s.ops[std::size_t(i)];
      (i == ops.front() ? op.births : op.writes).push_back(g);
    }
    inserted[ops.back() + 1].push_back({.kind = OpKind::reduce,
                                        .lane = Lane::comm,
                                        .block = k,
                                        .micro = micro,
                                        .reads = {g},
                                        .writes = {owned[std::size_t(k)]},
                                        .frees = {g}});
  }
  return insert_before(std::move(s), std::move(inserted));
}

}  // namespace zt::schedule
