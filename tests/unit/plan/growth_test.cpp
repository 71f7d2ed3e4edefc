// How the memory of activations grows with the number of layers.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/step_plan.h"

namespace zt::plan {
namespace {

// GPT-2 124M's blocks and tokens, as many layers as wanted; the vocabulary is small, so that blocks are what counts.
spec::ModelSpec of_layers(int layers) {
  return spec::from_config({{"model_type", "gpt2"},
                            {"n_embd", 768},
                            {"n_head", 12},
                            {"n_layer", layers},
                            {"n_positions", 1024},
                            {"vocab_size", 128}},
                           "layers");
}

StepShape shape_of(schedule::Recompute recompute, bool selective = false) {
  StepShape shape;
  shape.sequence_length = 1024;
  shape.policy.recompute = recompute;
  shape.selective = selective;
  return shape;
}

std::int64_t arena(int layers, const StepShape& shape) {
  return plan_step(of_layers(layers), shape).train.arena_bytes;
}
double growth(const StepShape& shape) { return double(arena(64, shape)) / double(arena(16, shape)); }

TEST_CASE("growth: from 16 to 64 layers sqrt doubles, everything else grows fourfold") {
  using schedule::Recompute;
  CHECK(growth(shape_of(Recompute::none)) == doctest::Approx(4).epsilon(0.05));
  CHECK(growth(shape_of(Recompute::none, true)) == doctest::Approx(4).epsilon(0.05));
  CHECK(growth(shape_of(Recompute::sqrt)) < 2.2);
  CHECK(growth(shape_of(Recompute::sqrt)) > 1.8);  // no policy is O(1), so this one must grow
  CHECK(growth(shape_of(Recompute::full)) > 2.2);
}

TEST_CASE("growth: each policy holds the inputs and inner activations that theory says, within two inputs") {
  // X: a block's input, S: what forward keeps beside it. Chen et al. 2016, section 4.2, for segments of k blocks:
  // all segments' inputs, and inner inputs and activations of one.
  using schedule::Recompute;
  for (const int L : {16, 36, 64}) {
    for (const bool selective : {false, true}) {
      CAPTURE(L);
      const StepShape none = shape_of(Recompute::none, selective);
      const std::int64_t X = 1024 * 768 * 4, S = saved_buffers(of_layers(L), none.train_shape()).bytes();
      const std::int64_t k = std::llround(std::sqrt(L));
      const auto near = [&](Recompute recompute, std::int64_t expected) {
        const std::int64_t bytes = arena(L, shape_of(recompute, selective));
        CHECK(bytes >= expected);
        CHECK(bytes <= expected + 2 * X + 4096);
      };
      near(Recompute::none, L * (X + S));
      near(Recompute::full, L * X + S);
      near(Recompute::sqrt, (L / k + k - 1) * X + k * S);
    }
  }
}

}  // namespace
}  // namespace zt::plan
