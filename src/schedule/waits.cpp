#include <algorithm>
#include <array>
#include <map>

#include "schedule/passes.h"

namespace zt::schedule {
namespace {

// For each lane the last op that matters, as an index into two steps in a row; -1 = none. Lanes are first-in
// first-out, so waiting for it is waiting for all earlier ops of that lane.
using Front = std::array<int, kLanes>;
constexpr Front kNothing = {-1, -1, -1};

void include(Front& front, const Front& other) {
  for (int lane = 0; lane < kLanes; ++lane)
    front[std::size_t(lane)] = std::max(front[std::size_t(lane)], other[std::size_t(lane)]);
}

// Who touched a slot last.
struct Touches {
  Front writers = kNothing, all = kNothing;
};

// Who touched a byte of the arena last: disjoint pieces, keyed by their first byte. A birth waits for the
// last owners of its bytes only; they in turn waited for the owners before them.
class ByteOwners {
 public:
  struct Piece {
    std::int64_t end;
    SlotId owner;
  };

  // Owners of the bytes of `slot` until now; it owns them from here.
  std::vector<SlotId> take(SlotId slot, std::int64_t begin, std::int64_t end) {
    std::vector<SlotId> before;
    if (begin == end) return before;
    split(begin);
    split(end);
    const auto first = pieces_.lower_bound(begin), last = pieces_.lower_bound(end);
    for (auto piece = first; piece != last; ++piece) before.push_back(piece->second.owner);
    pieces_.erase(first, last);
    pieces_[begin] = {end, slot};
    return before;
  }

 private:
  void split(std::int64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces_[at] = piece->second;
    piece->second.end = at;
  }

  std::map<std::int64_t, Piece> pieces_;
};

class Derivation {
 public:
  explicit Derivation(const Schedule& s)
      : s_(s), count_(int(s.ops.size())), touches_(s.slots.size()), known_(2 * s.ops.size(), kNothing) {
    tail_.fill(-1);
  }

  // What op `i` of the two steps must wait for on other lanes and does not know of yet.
  std::vector<int> waits_of(int i) {
    const Op& op = s_.ops[std::size_t(i % count_)];
    const std::size_t lane = std::size_t(op.lane);
    Front known = tail_[lane] < 0 ? kNothing : known_[std::size_t(tail_[lane])];
    const std::vector<int> waits = unknown(needs(op), known);
    for (int wait : waits) include(known, known_[std::size_t(wait)]);
    known[lane] = i;
    known_[std::size_t(i)] = known;
    tail_[lane] = i;
    record(op, i);
    return waits;
  }

 private:
  Front needs(const Op& op) {
    Front need = kNothing;
    for (SlotId slot : op.reads) include(need, touches_[std::size_t(slot)].writers);
    for (SlotId slot : op.writes) include(need, touches_[std::size_t(slot)].all);
    for (SlotId slot : op.frees) include(need, touches_[std::size_t(slot)].all);
    for (SlotId slot : op.births) {
      const Slot& it = s_.slots[std::size_t(slot)];
      for (SlotId owner : owners_.take(slot, it.offset, it.offset + it.bytes))
        include(need, touches_[std::size_t(owner)].all);
      touches_[std::size_t(slot)] = {};
    }
    return need;
  }

  // The latest needs first: what they know of need not be waited for again.
  std::vector<int> unknown(const Front& need, Front known) const {
    std::vector<int> latest(need.begin(), need.end());
    std::sort(latest.rbegin(), latest.rend());
    std::vector<int> waits;
    for (int i : latest) {
      if (i < 0) continue;
      const std::size_t lane = std::size_t(s_.ops[std::size_t(i % count_)].lane);
      if (known[lane] >= i) continue;
      waits.push_back(i);
      include(known, known_[std::size_t(i)]);
    }
    std::sort(waits.begin(), waits.end());
    return waits;
  }

  void record(const Op& op, int i) {
    const std::size_t lane = std::size_t(op.lane);
    for (const auto* list : {&op.reads, &op.writes, &op.births, &op.frees})
      for (SlotId slot : *list) touches_[std::size_t(slot)].all[lane] = i;
    for (const auto* list : {&op.writes, &op.births})
      for (SlotId slot : *list) touches_[std::size_t(slot)].writers[lane] = i;
  }

  const Schedule& s_;
  const int count_;
  std::vector<Touches> touches_;
  std::vector<Front> known_;  // what is finished when an op is finished
  std::array<int, kLanes> tail_{};
  ByteOwners owners_;
};

}  // namespace

Schedule with_waits(Schedule s) {
  const int n = int(s.ops.size());
  Derivation derivation(s);
  for (int i = 0; i < n; ++i) derivation.waits_of(i);
  std::vector<std::vector<int>> waits;  // seen from the second step, so that the first one's ops are negative
  for (int i = 0; i < n; ++i) waits.push_back(derivation.waits_of(n + i));
  for (int i = 0; i < n; ++i) {
    s.ops[std::size_t(i)].waits = waits[std::size_t(i)];
    for (int& wait : s.ops[std::size_t(i)].waits) wait -= n;
  }
  return s;
}

}  // namespace zt::schedule
