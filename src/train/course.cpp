#include "train/course.h"

#include <algorithm>

#include "train/setup.h"

namespace zt::train {

Course::Course(const recipe::Recipe& recipe, std::int64_t rows, double token_cost)
    : recipe_(recipe), rows_(rows), token_cost_(token_cost) {
  count_steps();
}

void Course::resume(const checkpoint::RunState& from) {
  step_ = first_step_ = from.step;
  first_sample_ = from.samples;
  updates_ = from.updates;
  order_ = SampleOrder(from.left_out);
  count_steps();
}

void Course::rewind(std::int64_t step, std::int64_t updates) {
  const StepSamples samples = samples_of(step_);
  order_.leave_out(samples.first, std::min(samples.count, samples.end - samples.first));
  step_ = step;
  updates_ = updates;
  count_steps();
}

// The place behind the last sample of the wanted epochs.
std::int64_t Course::end_of_epochs() const { return order_.places_before(samples_in(recipe_.train, rows_)); }

// With epochs, samples that are left out shorten the run.
void Course::count_steps() {
  const recipe::Train& t = recipe_.train;
  const std::int64_t left = end_of_epochs() - first_sample_;
  steps_ = t.max_steps ? *t.max_steps : first_step_ + (left + t.global_batch_size - 1) / t.global_batch_size;
}

StepSamples Course::samples_of(std::int64_t step) const {
  const recipe::Train& t = recipe_.train;
  return {first_sample_ + (step - 1 - first_step_) * t.global_batch_size,
          t.global_batch_size,
          t.epochs ? end_of_epochs() : first_sample_ + (steps_ - first_step_) * t.global_batch_size,
          t.micro_batch_size,
          static_cast<std::uint64_t>(recipe_.run.seed),
          token_cost_,
          order_};
}

double Course::epoch() const {
  const StepSamples s = samples();
  const std::int64_t last = order_.number(std::min(s.first + s.count, s.end) - 1);
  return static_cast<double>(last + 1) / static_cast<double>(rows_);
}

void Course::write_to(checkpoint::RunState& state) const {
  state.step = step_;
  state.updates = updates_;
  state.samples = std::min(first_sample_ + (step_ - first_step_) * recipe_.train.global_batch_size,
                           samples_of(steps_).end);
  state.left_out = order_.left_out();
}

}  // namespace zt::train
