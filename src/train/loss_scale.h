// Dynamic loss scaling: the factor S that carries float16 gradients above float16's smallest number.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "checkpoint/state.h"
#include "recipe/settings.h"

namespace zt::train {

struct LossScaleOptions {
  bool dynamic = true;  // false: S is 1 for good
  double init = 65536, min = 1, growth = 2, backoff = 0.5;
  std::int64_t window = 2000, hysteresis = 1;
  std::int64_t patience = 5;  // steps in a row that aren't finite and that no smaller S can mend
};

// From the keys precision.loss_scale*; dynamic only where model.dtype is float16.
LossScaleOptions loss_scale_options(const recipe::Recipe& recipe);

// The loss is multiplied by S; gradients are divided by S before they are clipped and used; a step whose
// gradients aren't finite changes nothing but S:
//
//   not finite   the first `hysteresis` - 1 are forgiven, then S = max(S backoff, min); good steps count from 0 again
//   finite       the window-th good step in a row: S = S growth, and the hysteresis is full again
//
// Sources: Micikevicius et al. 2018, section 3.2; with hysteresis 1 these are the rules of PyTorch's GradScaler,
// with more those of Megatron-LM's DynamicGradScaler and DeepSpeed's DynamicLossScaler. S never exceeds 2^64, so
// that S and 1 / S stay far inside float32. All is exact as long as init, min, growth and backoff are powers of two.
//
// A pure function of the steps' finiteness, which is the same on every rank.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options);  // Error(bug) for options that make no sense

  double scale() const { return scale_; }
  void update(bool finite);

  // A non-finite step can no longer be answered by a smaller S: it is at its floor, or not dynamic.
  bool at_floor() const { return !options_.dynamic || scale_ <= options_.min; }
  // Non-finite steps in a row that began at the floor.
  std::int64_t stuck_steps() const { return stuck_; }
  // The run should end: with `stopped`.
  bool exhausted() const { return stuck_ >= options_.patience; }

  checkpoint::LossScaleState state() const { return {scale_, good_steps_, forgiven_}; }
  // Goes on from a saved state, within the bounds of these options; without effect where S isn't dynamic. Only for
  // states of runs that scaled: another's S of 1 would take many windows to grow. Throws Error(model) for a scale
  // that isn't a power of two.
  void restore(const checkpoint::LossScaleState& state);

 private:
  LossScaleOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0, forgiven_, stuck_ = 0;
};

// The error that ends an exhausted run at `step`, whose first tensor that isn't finite is `first_bad`.
Error stopped(const LossScale& scale, std::int64_t step, const std::string& first_bad);

}  // namespace zt::train
