// When a run has to stop so that its last checkpoint is on disk before its time is over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "recipe/settings.h"
#include "train/job.h"

namespace zt::train {

// Seconds since 1970 at which something ends the run, and what that is: "the time limit of slurm job 17".
struct Deadline {
  double at = 0;
  std::string what;
};
// None where the recipe wants none, or, with `auto`, where the batch system says nothing.
std::optional<Deadline> deadline_of(const recipe::TimeLimit& limit, const Job& job, double started);

// Learns how long steps and saves take. All times are in seconds; nothing here looks at a clock.
class TimeLimit {
 public:
  // Until a save was measured it is expected to take `save_seconds`.
  TimeLimit(Deadline deadline, double save_seconds)
      : deadline_(std::move(deadline)), expected_(save_seconds) {}

  // What lies between two looks at the clock: a step, with the evaluation and the save it may have had.
  void round_took(double seconds) { longest_round_ = std::max(longest_round_, seconds); }
  void save_took(double seconds) { longest_save_ = std::max(longest_save_, seconds); }

  // So long before the deadline the run must begin to stop: another round, a save that is half as slow again as the
  // slowest until now, and a margin to leave in order.
  double reserve() const { return longest_round_ + 1.5 * save_seconds() + kMargin; }
  double save_seconds() const { return longest_save_ > 0 ? longest_save_ : expected_; }
  double left(double now) const { return deadline_.at - now; }
  bool due(double now) const { return left(now) < reserve(); }
  const Deadline& deadline() const { return deadline_; }

 private:
  static constexpr double kMargin = 5;
  Deadline deadline_;
  double expected_, longest_save_ = 0, longest_round_ = 0;
};

// Seconds since 1970.
double now_seconds();

}  // namespace zt::train
