// Who tokenizes what, and what is said while others still do.
#pragma once

#include <chrono>

#include "comm/communicator.h"
#include "data/preparation.h"

namespace zt::train {

// All ranks that see one cache folder share the work; where nodes have folders of their own, the ranks of each node do.
// Collective.
data::Share share_of_preparation(comm::Communicator& comm);

// A line every ten seconds of waiting for other ranks.
class WaitingLines {
 public:
  explicit WaitingLines(bool speaks) : speaks_(speaks) {}
  using Clock = std::chrono::steady_clock;
  void tick(Clock::time_point now = Clock::now());

 private:
  bool speaks_;
  Clock::time_point since_{}, last_{};  // the epoch: not waiting yet
};

}  // namespace zt::train
