#include "schedule/passes.h"

namespace zt::schedule {

Schedule with_resident_weights(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  for (Op& op : s.ops)
    for (int k : weight_blocks(op, facts)) op.reads.push_back(weights[std::size_t(k)]);
  return s;
}

}  // namespace zt::schedule
