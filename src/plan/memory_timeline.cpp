#include "plan/memory_timeline.h"

#include <algorithm>
#include <numeric>

#include "base/align.h"
#include "base/error.h"

namespace zt::plan {

using schedule::OpKind;
using schedule::SlotKind;

static Occupant occupant_of(SlotKind kind, bool recomputed) {
  switch (kind) {
    case SlotKind::W: return Occupant::gathered_weights;
    case SlotKind::G: return Occupant::whole_gradients;
    case SlotKind::X: return recomputed ? Occupant::recomputed : Occupant::block_inputs;
    case SlotKind::S: return recomputed ? Occupant::recomputed : Occupant::activations;
    case SlotKind::D: return Occupant::activation_gradients;
    default: throw Error(Blame::bug, "a slot outside the arena was born");
  }
}

std::int64_t MemoryPoint::live() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::vector<MemoryPoint> memory_timeline(const schedule::Schedule& list) {
  std::vector<MemoryPoint> timeline;
  timeline.reserve(list.ops.size());
  std::vector<Occupant> occupants(list.slots.size());
  MemoryPoint now;
  const auto place = [&](schedule::SlotId id) -> std::int64_t& {
    return now.bytes[static_cast<std::size_t>(occupants[static_cast<std::size_t>(id)])];
  };
  const auto bytes = [&](schedule::SlotId id) {
    return round_up(list.slots[static_cast<std::size_t>(id)].bytes, schedule::kAlignment);
  };
  for (const schedule::Op& op : list.ops) {
    for (const schedule::SlotId id : op.births) {
      const SlotKind kind = list.slots[static_cast<std::size_t>(id)].kind;
      occupants[static_cast<std::size_t>(id)] = occupant_of(kind, op.kind == OpKind::recompute);
      place(id) += bytes(id);
    }
    timeline.push_back(now);
    for (const schedule::SlotId id : op.frees) place(id) -= bytes(id);
    ++now.op;
  }
  return timeline;
}

MemoryPoint busiest(const std::vector<MemoryPoint>& timeline) {
  return *std::ranges::max_element(timeline, {}, &MemoryPoint::live);
}

}  // namespace zt::plan
