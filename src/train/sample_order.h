// Which samples of the data's endless order a run trains on: all, but for batches it was told to leave out.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/state.h"

namespace zt::train {

// Samples are numbered in the order of the data; those that aren't left out are numbered again, without gaps: their
// places. With nothing left out a sample's place is its number.
class SampleOrder {
 public:
  SampleOrder() = default;
  explicit SampleOrder(std::vector<checkpoint::SampleRange> left_out) : left_out_(std::move(left_out)) {}

  // The sample at a place.
  std::int64_t number(std::int64_t place) const;
  // Places of the samples below a number: how many are trained of them.
  std::int64_t places_before(std::int64_t number) const;
  // From here on without the samples at `count` places from `place` on.
  void leave_out(std::int64_t place, std::int64_t count);

  // Rising, not touching each other.
  const std::vector<checkpoint::SampleRange>& left_out() const { return left_out_; }

 private:
  std::vector<checkpoint::SampleRange> left_out_;
};

}  // namespace zt::train
