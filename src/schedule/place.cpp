#include <algorithm>
#include <random>
#include <utility>

#include "base/align.h"
#include "schedule/passes.h"

namespace zt::schedule {
namespace {

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kAlignment); }

// First and last op of every arena slot; -1, -1 for permanent ones.
struct Lifetimes {
  std::vector<int> birth, death;

  explicit Lifetimes(const Schedule& s) : birth(s.slots.size(), -1), death(s.slots.size(), -1) {
    for (int i = 0; i < int(s.ops.size()); ++i) {
      for (SlotId slot : s.ops[std::size_t(i)].births) birth[std::size_t(slot)] = i;
      for (SlotId slot : s.ops[std::size_t(i)].frees) death[std::size_t(slot)] = i;
    }
  }
};

// The slots placed so far, found by time: those live at an op, and those born at an op.
class Placed {
 public:
  Placed(const Schedule& s, const Lifetimes& life)
      : s_(s), life_(life), live_(s.ops.size()), born_(s.ops.size()) {}

  void add(SlotId slot) {
    const int birth = life_.birth[std::size_t(slot)], death = life_.death[std::size_t(slot)];
    born_[std::size_t(birth)].push_back(slot);
    for (int i = birth; i <= death; ++i) live_[std::size_t(i)].push_back(slot);
  }

  // The lowest offset where `slot` shares no byte with a placed slot that lives at the same time.
  std::int64_t lowest_gap(SlotId slot) const {
    std::vector<SlotId> others = live_[std::size_t(life_.birth[std::size_t(slot)])];
    for (int i = life_.birth[std::size_t(slot)] + 1; i <= life_.death[std::size_t(slot)]; ++i)
      others.insert(others.end(), born_[std::size_t(i)].begin(), born_[std::size_t(i)].end());
    std::sort(others.begin(), others.end(), [&](SlotId a, SlotId b) { return at(a).offset < at(b).offset; });
    std::int64_t offset = 0;
    for (SlotId other : others) {
      if (at(other).offset >= offset + at(slot).bytes) break;
      offset = std::max(offset, aligned(at(other).offset + at(other).bytes));
    }
    return offset;
  }

 private:
  const Slot& at(SlotId slot) const { return s_.slots[std::size_t(slot)]; }

  const Schedule& s_;
  const Lifetimes& life_;
  std::vector<std::vector<SlotId>> live_, born_;
};

// Bytes live at the busiest op: no placement can need less.
std::int64_t most_live(const Schedule& s) {
  std::int64_t live = 0, most = 0;
  for (const Op& op : s.ops) {
    for (SlotId slot : op.births) live += aligned(s.slots[std::size_t(slot)].bytes);
    most = std::max(most, live);
    for (SlotId slot : op.frees) live -= aligned(s.slots[std::size_t(slot)].bytes);
  }
  return most;
}

// Each slot in turn at the lowest place free during its lifetime.
void place_in_order(Schedule& s, const Lifetimes& life, const std::vector<SlotId>& order) {
  Placed placed(s, life);
  s.arena_bytes = 0;
  for (SlotId slot : order) {
    Slot& it = s.slots[std::size_t(slot)];
    it.offset = placed.lowest_gap(slot);
    placed.add(slot);
    s.arena_bytes = std::max(s.arena_bytes, aligned(it.offset + it.bytes));
  }
}

// The arena's slots, those with the largest `measure` first, earlier births first among equals.
template <typename Measure>
std::vector<SlotId> most_first(const Schedule& s, const Lifetimes& life, Measure measure) {
  std::vector<SlotId> order;
  for (SlotId slot = 0; slot < int(s.slots.size()); ++slot)
    if (!permanent(s.slots[std::size_t(slot)])) order.push_back(slot);
  std::stable_sort(order.begin(), order.end(), [&](SlotId a, SlotId b) {
    const auto of_a = measure(a), of_b = measure(b);
    return of_a != of_b ? of_a > of_b : life.birth[std::size_t(a)] < life.birth[std::size_t(b)];
  });
  return order;
}

constexpr std::int64_t kTries = 12;           // of each order, fewer where
constexpr std::int64_t kTriedSlots = 100000;  // so many slots would be placed in all
constexpr int kShuffles = 300;                // of the best order, where those leave a gap
constexpr double kGap = 1.02;                 // worth shuffling for
constexpr int kFewSlots = 2000;               // longer lists have no gaps worth the time

// Moves chance slots to the front of the order, those that stick out at the top among them.
class Shuffle {
 public:
  std::vector<SlotId> next(const Schedule& placed, std::vector<SlotId> order) {
    const auto sticks_out = [&](SlotId slot) {
      const Slot& it = placed.slots[std::size_t(slot)];
      return aligned(it.offset + it.bytes) == placed.arena_bytes;
    };
    const auto to_front = [&](std::vector<SlotId>::iterator it) { std::rotate(order.begin(), it, it + 1); };
    for (int i = 0; i < 2; ++i) to_front(order.begin() + std::ptrdiff_t(random_() % order.size()));
    const auto top = std::find_if(order.begin(), order.end(), sticks_out);
    if (top != order.end()) to_front(top);
    return order;
  }

 private:
  std::minstd_rand random_{1};  // the same places on every rank and in every run
};

}  // namespace

// Largest first is nearly always perfect. Where it is not, the slots that stick out at the top choose their
// places first in the next try (a D between two lives of a large S needs this), then other orders have a go,
// then chance.
Schedule place(Schedule s) {
  const Lifetimes life(s);
  const auto bytes = [&](SlotId slot) { return s.slots[std::size_t(slot)].bytes; };
  const auto ops = [&](SlotId slot) {
    return std::int64_t{life.death[std::size_t(slot)]} - life.birth[std::size_t(slot)] + 1;
  };
  const std::vector<std::vector<SlotId>> orders = {
      most_first(s, life, bytes), most_first(s, life, ops),
      most_first(s, life, [&](SlotId slot) { return double(bytes(slot)) * double(ops(slot)); })};
  const std::int64_t bound = most_live(s);
  const auto tries =
      std::clamp<std::int64_t>(kTriedSlots / std::max<std::int64_t>(1, std::ssize(s.slots)), 1, kTries);
  Schedule best;
  std::vector<SlotId> best_order;
  const auto attempt = [&](const std::vector<SlotId>& order) {
    place_in_order(s, life, order);
    if (!best.slots.empty() && s.arena_bytes >= best.arena_bytes) return;
    best = s;
    best_order = order;
  };
  for (std::vector<SlotId> order : orders)
    for (std::int64_t i = 0; i < tries && (best.slots.empty() || best.arena_bytes > bound); ++i) {
      attempt(order);
      std::stable_partition(order.begin(), order.end(), [&](SlotId slot) {
        return aligned(s.slots[std::size_t(slot)].offset + bytes(slot)) == s.arena_bytes;
      });
    }
  Shuffle shuffle;
  for (int i = 0; i < kShuffles && best_order.size() <= kFewSlots; ++i) {
    if (double(best.arena_bytes) <= kGap * double(bound)) break;
    attempt(shuffle.next(best, best_order));
  }
  return best;
}

}  // namespace zt::schedule
