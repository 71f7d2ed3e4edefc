#include <algorithm>
#include <map>
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {
namespace {

// The op after which the taker of a gradient made by `last` may stand at the earliest without holding up the
// gradients made next: they must not be given the bytes of this one while it is still on its way.
int after_next_maker(const std::vector<int>& makers, int last) {
  const auto next = std::upper_bound(makers.begin(), makers.end(), last);
  return (next == makers.end() ? last : *next) + 1;
}

}  // namespace

Schedule with_owned_gradients(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> owned = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  for (Op& op : s.ops)
    for (int k : gradient_blocks(op, facts)) op.writes.push_back(owned[std::size_t(k)]);
  return s;
}

Schedule with_whole_gradients(Schedule s, const StepFacts& facts, OpKind taker) {
  const std::vector<SlotId> owned = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  std::map<std::pair<int, int>, std::vector<int>> makers;  // of G by micro-batch and block: op indices
  std::vector<int> all;
  for (int i = 0; i < int(s.ops.size()); ++i) {
    const std::vector<int> blocks = gradient_blocks(s.ops[std::size_t(i)], facts);
    for (int k : blocks) makers[{s.ops[std::size_t(i)].micro, k}].push_back(i);
    if (!blocks.empty()) all.push_back(i);
  }

  const bool over_ranks = taker == OpKind::reduce;
  std::map<int, std::vector<Op>> inserted;
  for (const auto& [id, ops] : makers) {
    const auto [micro, k] = id;
    const SlotId g = add_slot(s, SlotKind::G, k, micro, facts.blocks[std::size_t(k)].whole_grad_bytes);
    for (int i : ops) {
      Op& op = s.ops[std::size_t(i)];
      (i == ops.front() ? op.births : op.writes).push_back(g);
    }
    inserted[over_ranks ? after_next_maker(all, ops.back()) : ops.back() + 1].push_back(
        {.kind = taker,
         .lane = over_ranks ? Lane::comm : Lane::compute,
         .block = k,
         .micro = micro,
         .reads = {g},
         .writes = {owned[std::size_t(k)]},
         .frees = {g}});
  }
  return insert_before(std::move(s), std::move(inserted));
}

Schedule with_final_reductions(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> owned = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  std::map<int, int> last;  // op that adds to R.k last, by block
  for (int i = 0; i < int(s.ops.size()); ++i)
    for (SlotId slot : s.ops[std::size_t(i)].writes)
      if (s.slots[std::size_t(slot)].kind == SlotKind::R) last[s.slots[std::size_t(slot)].block] = i;
  std::map<int, std::vector<Op>> inserted;
  for (const auto& [k, i] : last)
    inserted[i + 1].push_back(
        {.kind = OpKind::reduce, .lane = Lane::comm, .block = k, .writes = {owned[std::size_t(k)]}});
  return insert_before(std::move(s), std::move(inserted));
}

}  // namespace zt::schedule
