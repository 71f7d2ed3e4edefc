#include "train/loss_scale.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"

namespace zt::train {
namespace {

void repeat(LossScale& scale, int steps, bool finite) {
  for (int i = 0; i < steps; ++i) scale.update(finite);
}

LossScaleOptions options(double init, std::int64_t window, std::int64_t hysteresis = 1, double min = 1) {
  LossScaleOptions o;
  o.init = init;
  o.window = window;
  o.hysteresis = hysteresis;
  o.min = min;
  return o;
}

// The parameters of the usual implementations.
struct Usual {
  const char* name;
  double init;
  std::int64_t window, hysteresis;
};
constexpr Usual kUsual[] = {{"NVIDIA", 0x1p24, 2000, 1},
                            {"PyTorch", 0x1p16, 2000, 1},
                            {"TensorFlow", 0x1p15, 2000, 1},
                            {"DeepSpeed", 0x1p16, 1000, 2},
                            {"Megatron-LM", 0x1p32, 1000, 2}};

TEST_CASE("loss scale: the recipe's defaults are PyTorch's GradScaler, and only float16 scales") {
  recipe::Recipe recipe;
  recipe.model.dtype = recipe::ModelDtype::float16;
  LossScale scale(loss_scale_options(recipe));
  CHECK(scale.scale() == 65536);
  repeat(scale, 1999, true);
  CHECK(scale.scale() == 65536);
  scale.update(true);
  CHECK(scale.scale() == 131072);
  scale.update(false);
  CHECK(scale.scale() == 65536);
  scale.update(false);
  CHECK(scale.scale() == 32768);

  recipe.precision = {recipe::LossScale::dynamic, 1 << 20, 7, 3, 4};
  const LossScaleOptions set = loss_scale_options(recipe);
  CHECK(set.dynamic);
  CHECK(set.init == 1 << 20);
  CHECK(set.window == 7);
  CHECK(set.hysteresis == 3);
  CHECK(set.min == 4);
  recipe.precision.loss_scale = recipe::LossScale::none;
  CHECK_FALSE(loss_scale_options(recipe).dynamic);
  recipe.precision.loss_scale = recipe::LossScale::dynamic;
  for (const auto dtype : {recipe::ModelDtype::float32, recipe::ModelDtype::bfloat16}) {
    recipe.model.dtype = dtype;
    CHECK_FALSE(loss_scale_options(recipe).dynamic);
  }
}

TEST_CASE("loss scale: a window of good steps doubles it, the h-th overflow and each after it halve it") {
  for (const Usual& usual : kUsual) {
    CAPTURE(std::string(usual.name));
    LossScale scale(options(usual.init, usual.window, usual.hysteresis));
    const int window = int(usual.window), h = int(usual.hysteresis);
    repeat(scale, window - 1, true);
    CHECK(scale.scale() == usual.init);
    scale.update(true);
    CHECK(scale.scale() == 2 * usual.init);
    repeat(scale, window, true);
    CHECK(scale.scale() == 4 * usual.init);

    repeat(scale, h - 1, false);
    CHECK(scale.scale() == 4 * usual.init);
    scale.update(false);
    CHECK(scale.scale() == 2 * usual.init);
    repeat(scale, 3, false);
    CHECK(scale.scale() == usual.init / 4);

    // A good window refills the hysteresis.
    repeat(scale, window, true);
    CHECK(scale.scale() == usual.init / 2);
    repeat(scale, h, false);
    CHECK(scale.scale() == usual.init / 4);
  }
}

TEST_CASE(
    "loss scale: an overflow restarts the window, also one that is forgiven, and too few good steps refill "
    "nothing") {
  LossScale scale(options(1024, 10, 2));
  repeat(scale, 9, true);
  scale.update(false);  // the first of two: forgiven
  repeat(scale, 9, true);
  CHECK(scale.scale() == 1024);
  scale.update(false);  // the second, though 9 good steps lie between
  CHECK(scale.scale() == 512);
  repeat(scale, 10, true);
  CHECK(scale.scale() == 1024);
  scale.update(false);
  CHECK(scale.scale() == 1024);
}

// DeepSpeed's DynamicLossScaler, by its own bookkeeping: numbers of iterations instead of counters.
struct DeepSpeed {
  double scale, min;
  std::int64_t window, shift, hysteresis = shift, iteration = 0, last_overflow = -1;

  void update(bool overflow) {
    if (overflow) {
      if (shift == 1 || hysteresis == 1) {
        scale = std::max(scale / 2, min);
      } else {
        --hysteresis;
      }
      last_overflow = iteration;
    } else if ((iteration - last_overflow) % window == 0) {
      hysteresis = shift;
      scale *= 2;
    }
    ++iteration;
  }
};

TEST_CASE(
    "loss scale: random overflows give DeepSpeed's scales, and going on from a saved state changes nothing") {
  const RandomStream random{.seed = 3, .purpose = Purpose::test};
  for (const std::int64_t hysteresis : {1, 2, 5}) {
    CAPTURE(hysteresis);
    const LossScaleOptions o = options(0x1p16, 12, hysteresis, 4);
    LossScale straight(o), resumed(o);
    DeepSpeed other{0x1p16, 4, 12, hysteresis};
    int lowest = 0, raised = 0;
    for (std::uint64_t i = 0; i < 6000; ++i) {
      const std::uint32_t rarity = i / 200 % 2 == 0 ? 40 : 3;  // calm and rough stretches by turns
      const bool finite = random.words(i)[0] % rarity != 0;
      const double before = straight.scale();
      straight.update(finite);
      resumed.update(finite);
      other.update(!finite);
      if (straight.scale() != other.scale)
        FAIL("step " << i << ": " << straight.scale() << ", " << other.scale);
      REQUIRE(resumed.state() == straight.state());
      LossScale fresh(o);
      fresh.restore(resumed.state());
      resumed = fresh;
      lowest += straight.scale() == 4;
      raised += straight.scale() > before;
    }
    CHECK(raised > 50);
    CHECK(lowest > 100);
  }
}

TEST_CASE("loss scale: at the floor it stays, and patience ends after so many bad steps in a row there") {
  LossScaleOptions o = options(4, 1000);
  o.patience = 3;
  LossScale scale(o);
  CHECK_FALSE(scale.at_floor());
  repeat(scale, 2, false);
  CHECK(scale.scale() == 1);
  CHECK(scale.at_floor());
  CHECK(scale.stuck_steps() == 0);  // those two were answered by a smaller scale
  repeat(scale, 2, false);
  CHECK(scale.scale() == 1);
  CHECK_FALSE(scale.exhausted());
  scale.update(true);  // a good step gives the patience back
  repeat(scale, 2, false);
  CHECK_FALSE(scale.exhausted());
  scale.update(false);
  CHECK(scale.exhausted());
  const Error error = stopped(scale, 12, "transformer.h.3.mlp.c_fc.weight");
  CHECK(error.blame() == Blame::numbers);
  CHECK(error.problem() ==
        "step 12 was skipped: transformer.h.3.mlp.c_fc.weight is not finite; 3 steps in a row at a loss "
        "scale of 1, "
        "which can't fall further");
  CHECK(error.hint().find("optimizer.learning_rate") != std::string::npos);
}

TEST_CASE("loss scale: however many overflows there are above the floor, patience isn't used up") {
  LossScale scale(options(0x1p32, 1000));
  repeat(scale, 32, false);
  CHECK(scale.scale() == 1);
  CHECK(scale.stuck_steps() == 0);
}

TEST_CASE("loss scale: without scaling it is 1 for good, and only patience counts") {
  LossScaleOptions o = options(65536, 1);
  o.dynamic = false;
  LossScale scale(o);
  repeat(scale, 10, true);
  CHECK(scale.scale() == 1);
  repeat(scale, 4, false);
  CHECK_FALSE(scale.exhausted());
  scale.restore({1024, 0, 0});
  CHECK(scale.scale() == 1);
  scale.update(false);
  CHECK(scale.exhausted());
}

TEST_CASE("loss scale: growth ends at 2^64, and its reciprocal is a normal float32") {
  LossScale scale(options(0x1p16, 1));
  repeat(scale, 1000, true);
  CHECK(scale.scale() == 0x1p64);
  CHECK(std::isnormal(float(1 / scale.scale())));
}

TEST_CASE("loss scale: a saved state is held within this run's options, and nonsense is refused") {
  LossScale scale(options(65536, 100, 2, 16));
  scale.restore({4, 250, 7});  // a smaller floor, a longer window, more hysteresis
  CHECK(scale.state() == checkpoint::LossScaleState{16, 99, 1});
  for (const double bad : {3.0, 0.0, -2.0, double(INFINITY), double(NAN)})
    CHECK_THROWS_WITH_AS(scale.restore({bad, 0, 0}),
                         doctest::Contains("the checkpoint's loss scale must be a power of two"), Error);
  for (const LossScaleOptions& bad : {options(1, 100, 1, 2), options(65536, 0), options(65536, 1, 0),
                                      options(0, 1, 1, 0), options(0x1p65, 1), options(NAN, 1)})
    CHECK_THROWS_WITH_AS(LossScale{bad}, doctest::Contains("loss scale: init"), Error);
}

}  // namespace
}  // namespace zt::train
