#include <map>
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {

// Gradients are ready from the head down, so their norms are taken in that order.
Schedule with_update(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  const std::vector<SlotId> gradients = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  const std::vector<SlotId> optimizer = block_slots(s, SlotKind::O, facts, &BlockFacts::optimizer_bytes);
  const SlotId norm = add_slot(s, SlotKind::norm, -1, -1, facts.norm_bytes);
  for (int k = facts.head_block(); k >= 0; --k) {
    if (!facts.blocks[std::size_t(k)].trainable) continue;
    s.ops.push_back(
        {.kind = OpKind::norm, .block = k, .reads = {gradients[std::size_t(k)]}, .writes = {norm}});
  }
  s.ops.push_back(
      {.kind = OpKind::norm, .lane = facts.ranks > 1 ? Lane::comm : Lane::compute, .writes = {norm}});
  for (int k = 0; k <= facts.head_block(); ++k) {
    if (!facts.blocks[std::size_t(k)].trainable) continue;
    Op update{.kind = OpKind::update, .block = k, .reads = {norm}};
    for (const auto* slots : {&weights, &optimizer, &gradients})
      update.writes.push_back((*slots)[std::size_t(k)]);
    s.ops.push_back(update);
  }
  return s;
}

Schedule with_gathered_updates(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  std::map<int, std::vector<Op>> inserted;
  for (int i = 0; i < int(s.ops.size()); ++i) {
    const Op& op = s.ops[std::size_t(i)];
    if (op.kind != OpKind::update) continue;
    inserted[i + 1].push_back({.kind = OpKind::gather,
                               .lane = Lane::comm,
                               .block = op.block,
                               .writes = {weights[std::size_t(op.block)]}});
  }
  return insert_before(std::move(s), std::move(inserted));
}

}  // namespace zt::schedule
