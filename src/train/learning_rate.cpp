#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zt::train {

// How far a decay from `first` to `last` has gone at t, in [0, 1].
static double progress(std::int64_t t, std::int64_t first, std::int64_t last) {
  if (t <= first) return 0;
  if (t >= last) return 1;
  return static_cast<double>(t - first) / static_cast<double>(last - first);
}

double learning_rate(const recipe::LrSchedule& s, double peak, std::int64_t t, std::int64_t T) {
  const std::int64_t W = s.warmup_steps;
  if (t <= W) return peak * static_cast<double>(t) / static_cast<double>(W);
  const double low = s.min_lr_ratio * peak;
  switch (s.name) {
    case recipe::ScheduleName::constant: return peak;
    case recipe::ScheduleName::cosine:
      return low + (peak - low) * 0.5 *
                       (1 + std::cos(std::numbers::pi * progress(t, W, s.decay_steps.value_or(T))));
    case recipe::ScheduleName::linear:
      return low + (peak - low) * (1 - progress(t, W, s.decay_steps.value_or(T)));
    case recipe::ScheduleName::wsd:  // a recipe with wsd always says decay_steps
      return low + (peak - low) * (1 - progress(t, std::max(W, T - s.decay_steps.value()), T));
  }
  return peak;
}

}  // namespace zt::train
