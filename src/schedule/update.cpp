#include "schedule/passes.h"

namespace zt::schedule {

Schedule with_update(Schedule s, const StepFacts& facts) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  const std::vector<SlotId> gradients = block_slots(s, SlotKind::R, facts, &BlockFacts::grad_bytes);
  const std::vector<SlotId> optimizer = block_slots(s, SlotKind::O, facts, &BlockFacts::optimizer_bytes);
  const SlotId norm = add_slot(s, SlotKind::norm, -1, -1, facts.norm_bytes);
  s.ops.push_back({.kind = OpKind::norm, .reads = gradients, .writes = {norm}});
  for (std::size_t k = 0; k < weights.size(); ++k) {
    Op update{.kind = OpKind::update, .block = int(k), .reads = {norm}};
    update.writes = {weights[k], optimizer[k], gradients[k]};
    s.ops.push_back(update);
  }
  return s;
}

}  // namespace zt::schedule
