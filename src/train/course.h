// Where a run stands in its steps and in its data.
#pragma once

#include <cstdint>

#include "checkpoint/state.h"
#include "recipe/settings.h"
#include "train/batches.h"

namespace zt::train {

class Course {
 public:
  // `rows` training rows; a token costs `token_cost` as StepSamples says. A new run: no steps done.
  Course(const recipe::Recipe& recipe, std::int64_t rows, double token_cost);
  // Goes on from a checkpoint.
  void resume(const checkpoint::RunState& from);

  std::int64_t step() const { return step_; }              // done
  std::int64_t steps() const { return steps_; }            // in all
  std::int64_t first_step() const { return first_step_; }  // done before this process began
  std::int64_t updates() const { return updates_; }        // AdamW's t: a skipped step does not count
  bool complete() const { return step_ >= steps_; }

  void next_step() { ++step_; }
  void updated() { ++updates_; }
  // Back to an earlier step, and from there on without the samples of the step at hand.
  void rewind(std::int64_t step, std::int64_t updates);

  // Of the step at hand.
  StepSamples samples() const { return samples_of(step_); }
  // Passes over the training rows when the step at hand is done.
  double epoch() const;
  // Writes step, updates, samples and what is left out.
  void write_to(checkpoint::RunState& state) const;

 private:
  StepSamples samples_of(std::int64_t step) const;
  std::int64_t end_of_epochs() const;
  void count_steps();

  const recipe::Recipe& recipe_;
  std::int64_t rows_;
  double token_cost_;
  SampleOrder order_;
  std::int64_t step_ = 0, steps_ = 0, updates_ = 0;
  std::int64_t first_sample_ = 0;  // places of the order done before this process began, with
  std::int64_t first_step_ = 0;    // so many steps
};

}  // namespace zt::train
