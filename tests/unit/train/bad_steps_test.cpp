#include "train/bad_steps.h"

#include <doctest/doctest.h>

#include <cmath>

namespace zt::train {
namespace {

recipe::Train rules(recipe::OnBadStep nonfinite, recipe::OnSpike spike, std::int64_t most = 100) {
  recipe::Train train;
  train.on_nonfinite = nonfinite;
  train.on_spike = spike;
  train.spike_factor = 1.5;
  train.max_bad_steps = most;
  return train;
}

using Answer = BadSteps::Answer;

TEST_CASE(
    "bad steps: a spike is told from the mean of the sixteen good steps before, once there are so many") {
  const recipe::Train train = rules(recipe::OnBadStep::skip, recipe::OnSpike::skip);
  BadSteps bad(train);
  for (int i = 1; i <= 15; ++i) {
    bad.good(i);
    CHECK(std::isinf(bad.max_loss()));
  }
  bad.good(16);
  CHECK(bad.max_loss() == 1.5 * 8.5);  // mean of 1 ... 16
  bad.good(17);
  CHECK(bad.max_loss() == 1.5 * 9.5);
  bad.bad(true);  // what is skipped is no measure for the next
  CHECK(bad.max_loss() == 1.5 * 9.5);
  exec::StepResult result;
  result.spike = true;
  CHECK(bad.reason(result, 19) == "its loss of 19 is 2 times the mean of the 16 steps before");

  const recipe::Train ignoring = rules(recipe::OnBadStep::skip, recipe::OnSpike::ignore);
  BadSteps calm(ignoring);
  for (int i = 0; i < 40; ++i) calm.good(1);
  CHECK(std::isinf(calm.max_loss()));
}

TEST_CASE("bad steps: each rule has its answer, and past the budget every one is the end") {
  struct Case {
    recipe::OnBadStep nonfinite;
    recipe::OnSpike spike;
    Answer to_nonfinite, to_spike;
  };
  for (const Case& c : {Case{recipe::OnBadStep::skip, recipe::OnSpike::rewind, Answer::skip, Answer::rewind},
                        Case{recipe::OnBadStep::rewind, recipe::OnSpike::stop, Answer::rewind, Answer::stop},
                        Case{recipe::OnBadStep::stop, recipe::OnSpike::skip, Answer::stop, Answer::skip}}) {
    const recipe::Train train = rules(c.nonfinite, c.spike, 2);
    BadSteps bad(train);
    CHECK(bad.bad(false) == c.to_nonfinite);
    CHECK(bad.bad(true) == c.to_spike);
    CHECK_FALSE(bad.over_budget());
    CHECK(bad.bad(true) == Answer::stop);
    CHECK(bad.over_budget());
    CHECK(bad.count() == 3);
  }
}

TEST_CASE("bad steps: the error names the step, the reason, the rows, and which key ended the run") {
  recipe::Train train = rules(recipe::OnBadStep::stop, recipe::OnSpike::stop, 1);
  BadSteps bad(train);
  exec::StepResult result;
  result.finite = false;
  result.first_bad = "the gradient of lm_head.weight";
  bad.bad(false);
  const std::vector<std::string> rows = {"a:1", "a:2", "b:1", "b:2", "b:3", "b:4", "b:5", "b:6"};
  const Error by_rule = bad_step_error(train, bad, {7, result, NAN, bad.reason(result, NAN), rows});
  CHECK(by_rule.blame() == Blame::numbers);
  CHECK(
      by_rule.problem() ==
      "step 7: the gradient of lm_head.weight is not finite; its rows are a:1, a:2, b:1, b:2, b:3, b:4 and 2 "
      "more; train.on_nonfinite is stop");
  bad.bad(false);
  const Error by_budget = bad_step_error(train, bad, {8, result, NAN, bad.reason(result, NAN), {"a:1"}});
  CHECK(
      by_budget.problem() ==
      "step 8: the gradient of lm_head.weight is not finite; its rows are a:1; it is bad step number 2, and "
      "train.max_bad_steps is 1");
}

TEST_CASE("bad steps: saved and restored they judge the same; gone back, they still count") {
  const recipe::Train train = rules(recipe::OnBadStep::skip, recipe::OnSpike::skip, 3);
  BadSteps straight(train);
  for (int i = 0; i < 20; ++i) straight.good(1.0 / (i + 1));
  straight.bad(true);
  BadSteps resumed(train);
  resumed.restore(straight.state());
  CHECK(resumed.max_loss() == straight.max_loss());
  CHECK(resumed.count() == 1);
  BadSteps later = straight;
  later.good(9);
  later.bad(true);
  later.go_back_to(straight);
  CHECK(later.max_loss() == straight.max_loss());
  CHECK(later.count() == 2);
  // A longer window of a hostile or later file is cut, not believed.
  BadSteps cut(train);
  cut.restore({0, std::vector<double>(1000, 2.0)});
  CHECK(cut.state().losses.size() == BadSteps::kWindow);
}

}  // namespace
}  // namespace zt::train
