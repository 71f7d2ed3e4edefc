#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/text.h"
#include "schedule/passes.h"

namespace zt::schedule {
namespace {

// Transformer blocks first..last that keep only X.first in forward and are recomputed together, in order.
struct Segment {
  int first, last;
};

std::vector<Segment> runs_of(int blocks, int length) {
  std::vector<Segment> segments;
  for (int first = 1; first <= blocks; first += length)
    segments.push_back({first, std::min(first + length - 1, blocks)});
  return segments;
}

std::vector<Segment> segments_of(const Policy& policy, int blocks) {
  std::vector<Segment> segments;
  switch (policy.recompute) {
    case Recompute::none: return {};
    case Recompute::full: return runs_of(blocks, 1);
    case Recompute::every:
      for (int k = policy.every; k <= blocks; k += policy.every) segments.push_back({k, k});
      return segments;
    case Recompute::sqrt: return runs_of(blocks, std::max(1, int(std::ceil(std::sqrt(double(blocks))))));
  }
  return segments;
}

// Edits one micro-batch's ops of one segment. `forwards` and `backwards` are its ops by block.
class SegmentEdit {
 public:
  SegmentEdit(Schedule& s, const StepFacts& facts, int micro) : s_(s), facts_(facts), micro_(micro) {}

  // Returns the recompute ops to insert before backward of `segment.last`.
  std::vector<Op> apply(const Segment& segment, const std::map<int, int>& forwards,
                        const std::map<int, int>& backwards) {
    std::vector<Op> inserted;
    SlotId x = find_slot(s_, op(forwards, segment.first), SlotKind::X, segment.first);
    for (int k = segment.first; k <= segment.last; ++k) {
      Op again{.kind = OpKind::recompute, .block = k, .micro = micro_, .reads = {x}};
      if (k < segment.last)
        again.births.push_back(x = move_input(k + 1, op(forwards, k + 1), op(backwards, k + 1)));
      if (facts_.blocks[std::size_t(k)].saved_bytes > 0)
        again.births.push_back(move_saved(k, op(forwards, k), op(backwards, k)));
      if (!again.births.empty()) inserted.push_back(again);
    }
    return inserted;
  }

 private:
  Op& op(const std::map<int, int>& by_block, int k) { return s_.ops[std::size_t(by_block.at(k))]; }

  // Forward's S becomes scratch; backward reads the second one.
  SlotId move_saved(int k, Op& forward, Op& backward) {
    const SlotId old = find_slot(s_, forward, SlotKind::S, k);
    forward.frees.push_back(old);
    const SlotId again = add_slot(s_, SlotKind::S, k, micro_, s_.slots[std::size_t(old)].bytes, 1);
    replace(backward, old, again);
    return again;
  }

  // The inner input dies at its forward; backward reads the second one.
  SlotId move_input(int k, Op& forward, Op& backward) {
    const SlotId old = find_slot(s_, forward, SlotKind::X, k);
    forward.frees.push_back(old);
    const SlotId again = add_slot(s_, SlotKind::X, k, micro_, s_.slots[std::size_t(old)].bytes, 1);
    replace(backward, old, again);
    return again;
  }

  static void replace(Op& op, SlotId old, SlotId again) {
    std::replace(op.reads.begin(), op.reads.end(), old, again);
    std::replace(op.frees.begin(), op.frees.end(), old, again);
  }

  Schedule& s_;
  const StepFacts& facts_;
  int micro_;
};

}  // namespace

Schedule with_recompute(Schedule s, const StepFacts& facts, const Policy& policy) {
  std::vector<Segment> segments = segments_of(policy, facts.transformer_blocks());
  const int lowest = facts.lowest_trained();  // blocks below have no backward
  std::erase_if(segments, [&](const Segment& segment) { return segment.last < lowest; });
  for (Segment& segment : segments) segment.first = std::max(segment.first, lowest);
  if (segments.empty()) return s;

  std::vector<std::map<int, int>> forwards(std::size_t(facts.micros)), backwards(std::size_t(facts.micros));
  for (int i = 0; i < int(s.ops.size()); ++i) {
    const Op& op = s.ops[std::size_t(i)];
    if (op.kind == OpKind::forward) forwards[std::size_t(op.micro)][op.block] = i;
    if (op.kind == OpKind::backward) backwards[std::size_t(op.micro)][op.block] = i;
  }

  std::map<int, std::vector<Op>> before;
  for (int m = 0; m < facts.micros; ++m) {
    const auto &f = forwards[std::size_t(m)], &b = backwards[std::size_t(m)];
    for (const Segment& segment : segments)
      before[b.at(segment.last)] = SegmentEdit(s, facts, m).apply(segment, f, b);
  }

  return insert_before(std::move(s), std::move(before));
}

std::string name(const Policy& policy) {
  switch (policy.recompute) {
    case Recompute::none: return "none";
    case Recompute::full: return "full";
    case Recompute::every: return cat("every ", policy.every);
    case Recompute::sqrt: return "sqrt";
  }
  return "?";
}

}  // namespace zt::schedule
