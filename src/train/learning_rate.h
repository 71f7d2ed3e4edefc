// The learning rate as a pure function of the step number: nothing is stepped, nothing has to be saved.
#pragma once

#include <cstdint>

#include "recipe/settings.h"

namespace zt::train {

// The rate that step `t` (from 1) of `T` steps uses. W = warmup_steps, low = min_lr_ratio * peak, and r in [0, 1] is how
// far the decay has gone.
//
//   t <= W    peak t / W               linear warm-up: step 1 is above 0, step W has the peak
//   constant  peak
//   cosine    low + (peak - low) (1 + cos(pi r)) / 2    r from step W to step D = decay_steps, or T
//   linear    low + (peak - low) (1 - r)                the same r
//   wsd       low + (peak - low) (1 - r)                r from step T - D to step T; D = decay_steps
//
// Sources: Loshchilov & Hutter 2017 (SGDR) eq. 5 for cosine; Hu et al. 2024 (MiniCPM) section 4 for wsd.
double learning_rate(const recipe::LrSchedule& schedule, double peak, std::int64_t t, std::int64_t T);

}  // namespace zt::train
