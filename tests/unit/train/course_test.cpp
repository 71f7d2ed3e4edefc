#include "train/course.h"

#include <doctest/doctest.h>

namespace zt::train {
namespace {

recipe::Recipe by_epochs(double epochs, std::int64_t batch) {
  recipe::Recipe recipe;
  recipe.train.epochs = epochs;
  recipe.train.global_batch_size = batch;
  return recipe;
}

TEST_CASE(
    "course: epochs make steps, the last one short; a checkpoint holds one number, and going on is "
    "arithmetic") {
  const recipe::Recipe recipe = by_epochs(3, 4);
  Course straight(recipe, 10, 1);  // 30 samples
  CHECK(straight.steps() == 8);
  for (std::int64_t stop = 0; stop <= 8; ++stop) {
    Course before(recipe, 10, 1);
    for (std::int64_t s = 0; s < stop; ++s) before.next_step();
    checkpoint::RunState state;
    before.write_to(state);
    CHECK(state.samples == std::min<std::int64_t>(4 * stop, 30));
    Course after(recipe, 10, 1);
    after.resume(state);
    CHECK(after.steps() == 8);
    CHECK(after.step() == stop);
    if (stop == 8) continue;
    after.next_step();
    CHECK(after.samples().first == 4 * stop);
    CHECK(after.epoch() == doctest::Approx(std::min(4.0 * double(stop + 1), 30.0) / 10));
  }
}

TEST_CASE(
    "course: a batch that is left out is passed over from then on, also by who goes on with another batch "
    "size") {
  const recipe::Recipe recipe = by_epochs(2, 4);
  Course course(recipe, 10, 1);                    // 20 samples, 5 steps
  for (int s = 0; s < 3; ++s) course.next_step();  // the third has samples 8 to 11
  course.rewind(1, 1);
  CHECK(course.step() == 1);
  CHECK(course.updates() == 1);
  CHECK(course.steps() == 4);  // 16 samples are left
  course.next_step();
  CHECK(course.samples().order.number(course.samples().first) == 4);
  course.next_step();
  CHECK(course.samples().order.number(course.samples().first) == 12);
  CHECK(course.epoch() == doctest::Approx(1.6));  // sample 15 was the last

  checkpoint::RunState state;
  course.write_to(state);
  CHECK(state.samples == 12);
  CHECK(state.left_out == std::vector<checkpoint::SampleRange>{{8, 4}});
  const recipe::Recipe smaller = by_epochs(2, 3);
  Course after(smaller, 10, 1);
  after.resume(state);
  CHECK(after.steps() == 3 + 2);  // four samples, in threes
  after.next_step();
  CHECK(after.samples().order.number(after.samples().first) == 16);
}

}  // namespace
}  // namespace zt::train
