#include "train/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace zt::train {
namespace {

constexpr double kMost = 0x1p64;

bool sensible(const LossScaleOptions& o) {
  return o.min > 0 && o.init >= o.min && o.init <= kMost && o.growth >= 1 && o.backoff > 0 &&
         o.backoff <= 1 && o.window >= 1 && o.hysteresis >= 1 && o.patience >= 1;
}

bool power_of_two(double x) {
  int exponent = 0;
  return x > 0 && std::frexp(x, &exponent) == 0.5;
}

}  // namespace

LossScaleOptions loss_scale_options(const recipe::Recipe& recipe) {
  const recipe::Precision& p = recipe.precision;
  LossScaleOptions options;
  options.dynamic =
      recipe.model.dtype == recipe::ModelDtype::float16 && p.loss_scale == recipe::LossScale::dynamic;
  options.init = static_cast<double>(p.loss_scale_init);
  options.min = static_cast<double>(p.loss_scale_min);
  options.window = p.loss_scale_window;
  options.hysteresis = p.loss_scale_hysteresis;
  return options;
}

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), scale_(options.dynamic ? options.init : 1.0), forgiven_(options.hysteresis - 1) {
  if (!sensible(options))
    throw Error(Blame::bug, cat("loss scale: init ", options.init, ", min ", options.min, ", growth ",
                                options.growth, ", backoff ", options.backoff, ", window ", options.window,
                                ", hysteresis ", options.hysteresis, ", patience ", options.patience));
}

void LossScale::update(bool finite) {
  stuck_ = finite ? 0 : stuck_ + (at_floor() ? 1 : 0);
  if (!options_.dynamic) return;
  if (!finite) {
    good_steps_ = 0;
    if (forgiven_ > 0) {
      --forgiven_;
    } else {
      scale_ = std::max(scale_ * options_.backoff, options_.min);
    }
  } else if (++good_steps_ == options_.window) {
    good_steps_ = 0;
    forgiven_ = options_.hysteresis - 1;
    scale_ = std::min(scale_ * options_.growth, kMost);
  }
}

void LossScale::restore(const checkpoint::LossScaleState& state) {
  if (!options_.dynamic) return;
  if (!power_of_two(state.scale))
    throw Error(Blame::model, cat("the checkpoint's loss scale must be a power of two, is ", state.scale));
  scale_ = std::clamp(state.scale, options_.min, kMost);
  good_steps_ = std::clamp<std::int64_t>(state.good_steps, 0, options_.window - 1);
  forgiven_ = std::clamp<std::int64_t>(state.hysteresis, 0, options_.hysteresis - 1);
  stuck_ = 0;
}

Error stopped(const LossScale& scale, std::int64_t step, const std::string& first_bad) {
  return Error(
      Blame::numbers,
      cat("step ", step, " was skipped: ", first_bad, " is not finite; ", scale.stuck_steps(),
          " steps in a row at a loss scale of ", scale.scale(), ", which can't fall further"),
      "the fault isn't the scale's: look at that tensor's weights; a smaller optimizer.learning_rate or a "
      "longer lr_schedule.warmup_steps often helps, and model.dtype: bfloat16 has float32's range");
}

}  // namespace zt::train
