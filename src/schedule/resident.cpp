#include "schedule/passes.h"

namespace zt::schedule {

Schedule with_resident_weights(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  for (Op& op : s.ops)
    for (int k : weight_blocks(op, facts)) op.reads.push_back(weights[std::size_t(k)]);
  return s;
}

Schedule with_owned_gradients(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> gradients = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  for (Op& op : s.ops)
    if (op.kind == OpKind::head || op.kind == OpKind::backward)
      for (int k : weight_blocks(op, facts)) op.writes.push_back(gradients[std::size_t(k)]);
  return s;
}

}  // namespace zt::schedule
