// Numbers that ops leave for the host: each micro-batch's loss and the sums of squared gradients. They lie in the
// memory of the device, and are fetched when all are there.
#pragma once

#include <cstdint>
#include <vector>

#include "shard/param_store.h"

namespace zt::exec {

class Results {
 public:
  Results(const shard::ParamStore& store, std::int64_t micros);

  // Zeros, on the entered lane.
  void clear();
  // A place for a kernel's result. Number m < micros is the loss of micro-batch m.
  double* at(std::int64_t number) const { return values_ + number; }
  // Where the sums of a block's owned_gradient() ranges begin.
  std::int64_t first_square(int block) const { return first_square_[static_cast<std::size_t>(block)]; }
  // One more, for single questions.
  double* spare() const { return at(count_ - 1); }

  // After what was enqueued on the entered lane. `sums` gets the loss over all micro-batches, then each block's sum.
  void fetch(std::vector<double>& sums);
  double loss();
  double fetch_spare();

 private:
  void fetch_all();
  device::Device& device_;
  std::int64_t micros_, count_;
  std::vector<std::int64_t> first_square_;  // of each block, and the end of the last one's
  std::vector<double> here_;                // as the host sees them
  device::Arena memory_;                    // of a device that is not the host
  double* values_;
};

}  // namespace zt::exec
