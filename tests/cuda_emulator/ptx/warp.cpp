#include "warp.h"

#include <limits>

namespace zt::emulator::ptx {

void Warp::start(int index_in_block, Mask lanes_existing) {
  index = index_in_block;
  existing = live = lanes = lanes_existing;
  pc = 0;
  next_pc = std::numeric_limits<std::int32_t>::max();
  others.clear();
  stop = forced = false;
  for (auto& c : copies) c.clear();
  copy_group.fill(0);
  bulk_group.fill(0);
  published_at.fill(0);
  fenced_at = fences = 0;
  atomics_since_fence = false;
  atomic_addresses.clear();
}

void Warp::leave(Group::State state) {
  if (lanes != 0) others.push_back({pc, lanes, state});
  lanes = 0;
  regroup();
}

namespace {

// Groups at one instruction become one. Whoever comes makes a parked group try again.
void merge(std::vector<Group>* groups) {
  for (std::size_t i = 0; i < groups->size(); ++i) {
    for (std::size_t j = i + 1; j < groups->size();) {
      Group &a = (*groups)[i], &b = (*groups)[j];
      if (a.pc != b.pc || a.state == Group::State::waiting || b.state == Group::State::waiting) {
        ++j;
        continue;
      }
      a.lanes |= b.lanes;
      if (a.state != b.state || a.state == Group::State::parked) a.state = Group::State::ready;
      b = groups->back();
      groups->pop_back();
    }
  }
}

std::size_t lowest(const std::vector<Group>& groups, Group::State state) {
  std::size_t best = groups.size();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].state == state && (best == groups.size() || groups[i].pc < groups[best].pc)) best = i;
  }
  return best;
}

}  // namespace

void Warp::regroup() {
  if (lanes != 0) others.push_back({pc, lanes, Group::State::ready});
  lanes = 0;
  next_pc = std::numeric_limits<std::int32_t>::max();
  merge(&others);
  std::size_t pick = lowest(others, Group::State::ready);
  if (pick == others.size()) {
    stop = true;
    if (has(Group::State::yielded)) return;  // another warp's turn
    pick = lowest(others, Group::State::parked);
    if (pick == others.size()) return;
    forced = true;
  }
  pc = others[pick].pc;
  lanes = others[pick].lanes;
  others[pick] = others.back();
  others.pop_back();
  for (const Group& g : others) {
    if ((g.state == Group::State::ready || g.state == Group::State::parked) && g.pc > pc)
      next_pc = std::min(next_pc, g.pc);
  }
}

}  // namespace zt::emulator::ptx
