// What passes share: new slots, new ops, and who needs which weights.
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {

std::vector<int> weight_blocks(const Op& op, const StepFacts& facts) {
  using enum OpKind;
  switch (op.kind) {
    case backward:
      if (op.block == 0) return {};
      [[fallthrough]];
    case forward:
    case recompute: return {op.block};
    case head: return facts.tied ? std::vector<int>{op.block, 0} : std::vector<int>{op.block};
    case gather:
    case accumulate:
    case reduce:
    case norm:
    case update: return {};
  }
  return {};
}

std::vector<int> gradient_blocks(const Op& op, const StepFacts& facts) {
  std::vector<int> blocks;
  if (op.kind == OpKind::head || op.kind == OpKind::backward) blocks.push_back(op.block);
  if (op.kind == OpKind::head && facts.tied) blocks.push_back(0);
  std::erase_if(blocks, [&](int k) { return !facts.blocks[std::size_t(k)].trainable; });
  return blocks;
}

SlotId add_slot(Schedule& s, SlotKind kind, int block, int micro, std::int64_t bytes, int generation) {
  s.slots.push_back({kind, block, micro, generation, bytes, -1});
  return SlotId(s.slots.size()) - 1;
}

std::vector<SlotId> block_slots(Schedule& s, SlotKind kind, const StepFacts& facts,
                                std::int64_t BlockFacts::* bytes) {
  std::vector<SlotId> list(facts.blocks.size(), kNoSlot);
  for (SlotId id = 0; id < int(s.slots.size()); ++id)
    if (s.slots[std::size_t(id)].kind == kind) list[std::size_t(s.slots[std::size_t(id)].block)] = id;
  for (std::size_t k = 0; k < list.size(); ++k)
    if (list[k] == kNoSlot) list[k] = add_slot(s, kind, int(k), -1, facts.blocks[k].*bytes);
  return list;
}

Schedule insert_before(Schedule s, std::map<int, std::vector<Op>> inserted) {
  std::vector<Op> ops;
  for (int i = 0; i <= int(s.ops.size()); ++i) {
    if (const auto found = inserted.find(i); found != inserted.end())
      for (Op& op : found->second) ops.push_back(std::move(op));
    if (i < int(s.ops.size())) ops.push_back(std::move(s.ops[std::size_t(i)]));
  }
  s.ops = std::move(ops);
  return s;
}

}  // namespace zt::schedule
