// The learning rate as a pure function of the step number: nothing is stepped, nothing has to be saved.
#pragma once

#include <cstdint>

#include "recipe/settings.h"

namespace zt::train {

// The rate that step `t` (from 1) of `T` steps uses. peak = optimizer.learning_rate, low = min_lr_ratio *
// peak, W = warmup_steps.
//
//   t <= W    peak t / W                                        linear warm-up: step 1 is above 0, step W has
//   the peak constant  peak cosine    low + (peak - low) (1 + cos(pi r)) / 2            r = (t - W) / (D -
//   W), at most 1; D = decay_steps, or T linear    low + (peak - low) (1 - r) wsd       peak until step T -
//   D, then linear to low at T     D = decay_steps, or T / 10 rounded up
//
// Sources: Loshchilov & Hutter 2017 (SGDR) eq. 5 for cosine; Hu et al. 2024 (MiniCPM) section 4 for
// warm-up-stable-decay.
double learning_rate(const recipe::LrSchedule& schedule, double peak, std::int64_t t, std::int64_t T);

}  // namespace zt::train
