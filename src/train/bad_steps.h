// What follows a step whose numbers are bad: not finite, or a loss far above those before it.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/state.h"
#include "exec/executor.h"
#include "recipe/settings.h"

namespace zt::train {

// By the recipe's rules train.on_nonfinite and train.on_spike. A function of the losses alone, which are the same on
// every rank; with its state saved, a resumed run judges as a straight one.
class BadSteps {
 public:
  // A spike is a loss above spike_factor times the mean of so many good steps right before it.
  static constexpr std::size_t kWindow = 16;

  explicit BadSteps(const recipe::Train& rules) : rules_(&rules) {}

  // The limit for the next step's mean loss; infinite where spikes are ignored, or too few steps are known.
  double max_loss() const;
  // A step of this loss was good.
  void good(double loss);
  // A step was bad: a spike, or not `finite`. Counts it and says what the rules want; `stop` over the budget.
  enum class Answer { skip, rewind, stop };
  Answer bad(bool finite);

  // "its loss of 9.1 is 2.4 times the mean of the 16 steps before", "the gradient of X is not finite".
  std::string reason(const exec::StepResult& result, double loss) const;
  bool over_budget() const { return count_ > rules_->max_bad_steps; }
  std::int64_t count() const { return count_; }

  // After a rewind: the losses are those of the state gone back to, the count stays.
  void go_back_to(const BadSteps& earlier) { losses_ = earlier.losses_; }
  checkpoint::BadStepState state() const { return {count_, {losses_.begin(), losses_.end()}}; }
  void restore(const checkpoint::BadStepState& state);

 private:
  double mean() const;
  const recipe::Train* rules_;
  std::deque<double> losses_;  // of the last good steps, oldest first
  std::int64_t count_ = 0;
};

// One of them, for people and for events.jsonl.
struct BadStep {
  std::int64_t step = 0;
  const exec::StepResult& result;
  double loss = 0;
  std::string reason;             // BadSteps::reason
  std::vector<std::string> rows;  // stable ids of the batch's rows
};
std::string skipped_text(const BadStep& bad);
std::string rewound_text(const BadStep& bad, std::int64_t back_to);
nlohmann::ordered_json facts_of(const BadStep& bad);  // loss, grad_norm, rows
// The Error(numbers) that ends a run there: by a rule, or because there were too many.
Error bad_step_error(const recipe::Train& rules, const BadSteps& counted, const BadStep& bad);

}  // namespace zt::train
