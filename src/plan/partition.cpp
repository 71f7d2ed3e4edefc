#include "plan/partition.h"

#include "base/align.h"

namespace zt::plan {

// Slices begin on 64-byte boundaries in every number format.
static constexpr std::int64_t kSliceUnit = 32;

Range overlap(const Range& a, const Range& b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max<std::int64_t>(0, std::min(a.end(), b.end()) - first)};
}

Partition Partition::of_stage(int stage, int ranks, schedule::ReduceEvery reduce) {
  Partition p;
  p.ranks = ranks;
  if (ranks == 1) return p;
  p.weights_whole = stage < 3;
  p.grads_whole = stage == 0 || reduce == schedule::ReduceEvery::step;
  p.update_whole = stage == 0;
  return p;
}

BlockLayout::BlockLayout(const spec::BlockSpec& block, const Partition& partition)
    : ranks_(partition.ranks),
      elements_(block.elements),
      slice_(round_up((block.elements + partition.ranks - 1) / partition.ranks, kSliceUnit)) {
  for (const spec::TensorSpec& tensor : block.tensors) {
    if (!tensor.trainable) continue;
    const bool joins =
        !trained_.empty() && trained_.back().end() == tensor.offset && trained_.back().decay == tensor.decay;
    if (!joins) trained_.push_back({tensor.offset, 0, 0, tensor.decay});
    trained_.back().count += tensor.elements();
  }
}

Range BlockLayout::owned(int rank) const { return overlap({rank * slice_, slice_}, {0, elements_}); }

std::vector<Part> BlockLayout::parts(const Range& range) const {
  std::vector<Part> parts;
  std::int64_t state = 0;
  for (const Part& whole : trained_) {
    const Range cut = overlap({whole.first, whole.count}, range);
    if (cut.count == 0) continue;
    parts.push_back({cut.first, cut.count, state, whole.decay});
    state += cut.count;
  }
  return parts;
}

std::int64_t BlockLayout::trained(const Range& range) const {
  std::int64_t sum = 0;
  for (const Part& part : parts(range)) sum += part.count;
  return sum;
}

// A slice inside a part is trained throughout. So the fullest is one of those where a part begins or ends, or next to
// them: ranks may be a million.
std::int64_t BlockLayout::most_trained() const {
  std::int64_t most = 0;
  for (const Part& part : trained_)
    for (const std::int64_t edge : {part.first / slice_, (part.end() - 1) / slice_})
      for (std::int64_t rank = edge - 1; rank <= edge + 1; ++rank)
        if (rank >= 0 && rank < ranks_) most = std::max(most, trained(owned(static_cast<int>(rank))));
  return most;
}

std::int64_t snapshot_bytes(const BlockLayout& layout) {
  return 4 * (layout.slice() + 2 * layout.most_trained());
}

}  // namespace zt::plan
