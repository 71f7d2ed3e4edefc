// How a run talks while it trains: a bar on a terminal, plain lines elsewhere. All of it goes to stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "recipe/settings.h"
#include "train/metrics.h"

namespace zt::train {

class Progress {
 public:
  // A resumed run has done `first_step` steps before.
  Progress(recipe::Progress kind, std::int64_t max_steps, std::int64_t first_step = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(const StepMetrics& metrics);
  void evaluation(std::int64_t step, double loss, std::int64_t tokens);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_left(std::int64_t step) const;
  bool bar_, lines_;
  std::int64_t max_steps_, first_step_;
  Clock::time_point start_ = Clock::now(), last_ = {};
};

// "[=====>    ] 120/500  loss 2.345  1,234 tok/s  MFU 61 %  3m 05s left", fitted into `width` columns.
std::string bar_line(const StepMetrics& metrics, std::int64_t max_steps, double seconds_left, int width);

}  // namespace zt::train
