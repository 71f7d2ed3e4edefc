#include "train/bad_steps.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "train/metrics.h"

namespace zt::train {

double BadSteps::mean() const {
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

double BadSteps::max_loss() const {
  if (rules_->on_spike == recipe::OnSpike::ignore || losses_.size() < kWindow)
    return std::numeric_limits<double>::infinity();
  return rules_->spike_factor * mean();
}

void BadSteps::good(double loss) {
  losses_.push_back(loss);
  if (losses_.size() > kWindow) losses_.pop_front();
}

static BadSteps::Answer answer_of(recipe::OnBadStep rule) {
  switch (rule) {
    case recipe::OnBadStep::stop: return BadSteps::Answer::stop;
    case recipe::OnBadStep::skip: return BadSteps::Answer::skip;
    case recipe::OnBadStep::rewind: return BadSteps::Answer::rewind;
  }
  throw Error(Blame::bug, "a rule for steps that are not finite has no answer");
}

static BadSteps::Answer answer_of(recipe::OnSpike rule) {
  switch (rule) {
    case recipe::OnSpike::ignore: break;  // then no step is a spike
    case recipe::OnSpike::stop: return BadSteps::Answer::stop;
    case recipe::OnSpike::skip: return BadSteps::Answer::skip;
    case recipe::OnSpike::rewind: return BadSteps::Answer::rewind;
  }
  throw Error(Blame::bug, "a rule for spikes has no answer");
}

BadSteps::Answer BadSteps::bad(bool finite) {
  ++count_;
  if (over_budget()) return Answer::stop;
  return finite ? answer_of(rules_->on_spike) : answer_of(rules_->on_nonfinite);
}

std::string BadSteps::reason(const exec::StepResult& result, double loss) const {
  if (!result.finite) return result.first_bad + " is not finite";
  return fmt::format("its loss of {:.4g} is {:.3g} times the mean of the {} steps before", loss,
                     loss / mean(), losses_.size());
}

void BadSteps::restore(const checkpoint::BadStepState& state) {
  count_ = state.count;
  const std::size_t known = std::min(state.losses.size(), kWindow);
  losses_.assign(state.losses.end() - static_cast<std::ptrdiff_t>(known), state.losses.end());
}

// "a, b, c and 5 more".
static std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  if (names.size() <= kShown) return join(names, ", ");
  return cat(join({names.begin(), names.begin() + kShown}, ", "), " and ", names.size() - kShown, " more");
}

std::string skipped_text(const BadStep& bad) {
  return cat("step ", bad.step, " was skipped: ", bad.reason, "; its rows are ", some_of(bad.rows));
}

std::string rewound_text(const BadStep& bad, std::int64_t back_to) {
  return cat("step ", bad.step, ": ", bad.reason, "; back to the state after step ", back_to,
             ", without its rows ", some_of(bad.rows));
}

nlohmann::ordered_json facts_of(const BadStep& bad) {
  return {{"loss", number_or_null(bad.loss)},
          {"grad_norm", number_or_null(bad.result.grad_norm)},
          {"rows", bad.rows}};
}

Error bad_step_error(const recipe::Train& rules, const BadSteps& counted, const BadStep& bad) {
  const std::string what = cat("step ", bad.step, ": ", bad.reason, "; its rows are ", some_of(bad.rows));
  const std::string look =
      "`zerotrain data` shows the rows; a smaller optimizer.learning_rate or a longer "
      "lr_schedule.warmup_steps "
      "often helps";
  const std::string why = counted.over_budget()
                              ? cat("; it is bad step number ", counted.count(),
                                    ", and train.max_bad_steps is ", rules.max_bad_steps)
                              : cat("; train.", bad.result.finite ? "on_spike" : "on_nonfinite", " is stop");
  return Error(Blame::numbers, what + why, look);
}

}  // namespace zt::train
