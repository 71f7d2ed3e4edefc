// Who holds what of a block's weights, gradients and optimizer state: arithmetic only.
// Source: Rajbhandari et al. 2020 (ZeRO), section 5.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/policy.h"
#include "spec/model.h"

namespace zt::plan {

// Elements [first, first + count) of a block or tensor.
struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  friend bool operator==(const Range&, const Range&) = default;
};
// Empty (count 0) where the two have nothing in common.
Range overlap(const Range& a, const Range& b);

// How the state is split over the ranks. With one rank everything is whole.
struct Partition {
  int ranks = 1;
  bool weights_whole = true;  // stages 0, 1, 2: every rank holds all weights
  bool grads_whole = true;    // stage 0, and stages that reduce gradients once a step
  bool update_whole = true;   // stage 0: every rank holds all optimizer state and updates everything

  // The split of a ZeRO stage (0 to 3).
  static Partition of_stage(int stage, int ranks, schedule::ReduceEvery reduce);
  friend bool operator==(const Partition&, const Partition&) = default;
};

// A piece of a block that is trained, with one decay class.
struct Part {
  std::int64_t first = 0, count = 0;  // elements from the block's start
  std::int64_t state = 0;             // where it begins in the rank's optimizer state (and sliced gradient)
  bool decay = false;
  std::int64_t end() const { return first + count; }
  friend bool operator==(const Part&, const Part&) = default;
};

// A block's elements, padded to `ranks` slices of equal length; rank r owns slice r. Padding exists only here.
class BlockLayout {
 public:
  BlockLayout(const spec::BlockSpec& block, const Partition& partition);

  std::int64_t elements() const { return elements_; }
  std::int64_t slice() const { return slice_; }
  std::int64_t padded() const { return slice_ * ranks_; }
  // The rank's slice without padding; empty for ranks behind the last element.
  Range owned(int rank) const;
  // The trained pieces of `range`, neighbours of one decay class as one; their state follows without gaps.
  std::vector<Part> parts(const Range& range) const;
  // Trained elements of `range`, and the most that any rank owns.
  std::int64_t trained(const Range& range) const;
  std::int64_t most_trained() const;

 private:
  int ranks_;
  std::int64_t elements_, slice_;
  std::vector<Part> trained_;  // of the whole block
};

// Bytes of a copy of a rank's own fp32 values and moments, for the fullest rank.
std::int64_t snapshot_bytes(const BlockLayout& layout);

}  // namespace zt::plan
