// Losses, norms and skipped steps whose values follow by hand, over ranks and stages.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "bits/ranks.h"
#include "device/device.h"
#include "tensor/convert.h"

namespace zt::test {
namespace {

// Calls f(ranks, stage, options without rows and length) for 1, 2 and 4 ranks at every stage.
template <typename F>
void each_split(const std::vector<int>& all_ranks, F f) {
  for (const int ranks : all_ranks)
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(ranks);
      CAPTURE(stage);
      ZeroCase c{.ranks = ranks, .stage = stage};
      if (stage >= 2) c.policy.zero.reduce = schedule::ReduceEvery::micro;
      f(c);
    }
}

data::Row pair_of(int input, int target) { return row_of({input, target}, {2}); }

struct Probe {
  std::vector<data::Row> rows;
  std::function<float(int, int)> head = nullptr;
};

// One step of the probe model without an update that matters: its loss sum and norm, the same on all ranks.
exec::StepResult step_of(const Probe& probe, ZeroCase c, std::int64_t length, int vocabulary) {
  const spec::ModelSpec model = probe_model(vocabulary);
  const std::int64_t rows = std::int64_t(probe.rows.size()) / c.ranks;
  exec::StepResult result;
  std::mutex mutex;
  comm::run_threads(c.ranks, 60, [&](comm::Communicator& comm) {
    exec::Engine engine(model, engine_options(c, rows, length), &comm);
    fill_probe(engine.params(), model, probe.head);
    engine.gather_weights();
    const auto all = micro_batches(probe.rows, rows, length);
    const auto r =
        engine.train_step({&all[std::size_t(comm.rank())], 1}, supervised(all), 1, {.lr = 0.01f}, 0);
    const std::lock_guard lock(mutex);
    if (comm.rank() == 0) result = r;
  });
  return result;
}

// sqrt(7) / 2, each parameter once, whoever holds it; and ln 8.
TEST_CASE(
    "probe over ranks: four inputs of Z(8) have gradient norm 1.3228757 at every stage, and lose ln 8 each") {
  const Probe probe{{pair_of(0, 1), pair_of(2, 3), pair_of(4, 5), pair_of(6, 7)}};
  each_split({1, 2, 4}, [&](const ZeroCase& c) {
    const exec::StepResult r = step_of(probe, c, 2, 8);
    CHECK(r.grad_norm == doctest::Approx(std::sqrt(7.0) / 2).epsilon(1e-6));
    CHECK(r.loss_sum / 4 == doctest::Approx(std::log(8.0)).epsilon(1e-6));
  });
}

// p(2|1) = 1/2 on one rank, three times p(4|3) = 1/8 on the other.
TEST_CASE(
    "probe over ranks: unequal numbers of trained tokens have one denominator, and the loss is everybody's") {
  const auto p = [](int j, int i) {
    if (i == 1) return j == 2 ? 0.5 : 0.5 / 7;
    if (i == 3) return j == 4 ? 0.125 : 0.875 / 7;
    return 0.125;
  };
  const auto head = bigram_head(8, p);
  const data::Row one = row_of({1, 2, 0, 0, 0, 0}, {2, 4});
  const data::Row three = row_of({3, 4, 3, 4, 3, 4}, {2, 2, 2});
  std::vector<data::Row> rows = {one, three};
  for (std::size_t i = 2; i < 6; ++i) rows[0].labels[i] = -100;
  const double alone = step_of({rows, head}, {.ranks = 1}, 6, 8).grad_norm;
  each_split({1, 2}, [&](const ZeroCase& c) {
    const exec::StepResult r = step_of({rows, head}, c, 6, 8);
    CHECK(r.loss_sum / 4 == doctest::Approx(2.5 * std::log(2.0)).epsilon(1e-6));
    CHECK(r.grad_norm == doctest::Approx(alone).epsilon(1e-6));
  });
  each_split({2}, [&](const ZeroCase& c) {
    const exec::StepResult r = step_of({{pair_of(1, 2), pair_of(3, 4)}, head}, c, 2, 8);
    CHECK(r.loss_sum / 2 == doctest::Approx(2 * std::log(2.0)).epsilon(1e-6));
  });
}

// What a rank holds that a skipped step must not change.
std::vector<float> state_of(const shard::ParamStore& store, const spec::ModelSpec& model) {
  std::vector<float> all;
  for (int b = 0; b < int(model.blocks.size()); ++b)
    for (const plan::Part& part : store.parts(b))
      for (const float* values :
           {store.master(b, part), store.first_moment(b, part), store.second_moment(b, part)})
        all.insert(all.end(), values, values + part.count);
  return all;
}

// The last rank's gradient becomes infinite before its norm is taken, in the second of three steps.
TEST_CASE(
    "skips: one infinite gradient on one rank skips the step on all, which changes nothing and names the "
    "tensor") {
  const spec::ModelSpec model = probe_model(8, 2);
  const std::vector<data::Row> rows = {pair_of(0, 1), pair_of(2, 3), pair_of(4, 5), pair_of(6, 7)};
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    each_split({1, 2, 4}, [&](ZeroCase c) {
      std::mutex mutex;
      std::vector<std::string> named;
      comm::run_threads(c.ranks, 60, [&](comm::Communicator& comm) {
        exec::Engine* poisoned = nullptr;
        ZeroCase mine = c;
        mine.lanes = {true, [&](const schedule::Op& op) {
                        if (poisoned == nullptr || op.kind != schedule::OpKind::norm || op.block != 1) return;
                        const plan::Range r = poisoned->params().owned_gradient(1).front();
                        poisoned->params().grads(1)[r.first + r.count - 1] = float(bad);
                      }};
        exec::Engine engine(model, engine_options(mine, 4 / c.ranks, 2), &comm);
        spec::ModelSpec wide = model;
        wide.init_std = 0.3f;
        shard::initialise(engine.params(), wide, 5);
        engine.gather_weights();
        const auto all = micro_batches(rows, 4 / c.ranks, 2);
        const auto step = [&](std::uint32_t number) {
          return engine.train_step({&all[std::size_t(comm.rank())], 1}, 4, number, {.lr = 0.01f, .t = number},
                                   1);
        };
        const bool finite_before = step(1).finite;
        const std::vector<float> before = state_of(engine.params(), model);
        poisoned = comm.rank() == comm.size() - 1 ? &engine : nullptr;
        const exec::StepResult skipped = step(2);
        poisoned = nullptr;
        const std::vector<float> after = state_of(engine.params(), model);
        const exec::StepResult next = step(3);
        const std::lock_guard lock(mutex);
        CHECK(finite_before);
        CHECK_FALSE(skipped.finite);
        CHECK(after == before);
        CHECK(next.finite);
        CHECK(state_of(engine.params(), model) != before);
        named.push_back(skipped.first_bad);
      });
      // The last element of the layer belongs to its last tensor.
      for (const std::string& name : named)
        CHECK(name == "the gradient of model.layers.0.mlp.down_proj.weight");
    });
}

// 1 + 255 x 2^-9 in fp32; bf16 accumulation stays at 1.
TEST_CASE(
    "sums: small gradients of many micro-batches add up in fp32, and not where the recipe names bfloat16") {
  for (const Dtype grad : {Dtype::f32, Dtype::bf16}) {
    spec::ModelSpec model = probe_model(8);
    const auto split = plan::Partition::of_stage(2, 2, schedule::ReduceEvery::micro);
    shard::ParamStore store(model, Dtype::bf16, true, {split, 0, grad});
    const plan::Part part = store.parts(1).front();
    float one = 1.f, small = 0x1p-9f;
    device::host().add(grad, store.gradient(1, part), &one, 1);
    for (int i = 0; i < 255; ++i) device::host().add(grad, store.gradient(1, part), &small, 1);
    float sum = 0;
    convert(store.gradient(1, part), grad, &sum, Dtype::f32, 1);
    CHECK(sum == (grad == Dtype::f32 ? 1.498046875f : 1.f));
  }
}

TEST_CASE("ranks: different lists are an error that names both ranks and their fingerprints") {
  const spec::ModelSpec model = probe_model(8);
  std::string says;
  try {
    comm::run_threads(3, 60, [&](comm::Communicator& comm) {
      ZeroCase c{.ranks = 3, .stage = comm.rank() == 2 ? 3 : 2};
      c.policy.zero.reduce = schedule::ReduceEvery::micro;
      exec::Engine engine(model, engine_options(c, 1, 2), &comm);
    });
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    says = e.what();
  }
  CAPTURE(says);
  CHECK(says.find("ranks 0 and 2 planned different steps (fingerprints ") != std::string::npos);
}

// Float16 with a loss scale: the update is the unscaled one, whatever the power of two.
TEST_CASE(
    "loss scale: a power of two changes no bit of a float32 step, and float16 keeps small gradients by it") {
  const spec::ModelSpec model = probe_model(8, 2);
  const std::vector<data::Row> rows = {pair_of(0, 1), pair_of(2, 3), pair_of(4, 5), pair_of(6, 7)};
  const auto run = [&](Dtype dtype, double scale) {
    exec::Engine engine(model, engine_options({.dtype = dtype}, 4, 2));
    spec::ModelSpec wide = model;
    wide.init_std = 0.3f;
    shard::initialise(engine.params(), wide, 5);
    const auto all = micro_batches(rows, 4, 2);
    std::vector<double> out;
    for (std::uint32_t step = 1; step <= 3; ++step) {
      const auto r = engine.train_step(all, 4, step, {.lr = 0.01f, .t = step}, 0.5, scale);
      out.insert(out.end(), {r.loss_sum, r.grad_norm});
    }
    const std::vector<float> state = state_of(engine.params(), model);
    out.insert(out.end(), state.begin(), state.end());
    return out;
  };
  const auto plain = run(Dtype::f32, 1);
  for (const double scale : {2.0, 1024.0, 65536.0}) CHECK(run(Dtype::f32, scale) == plain);
  const auto half = run(Dtype::f16, 1024);
  for (std::size_t i = 0; i < 6; ++i) CHECK(half[i] == doctest::Approx(plain[i]).epsilon(0.01));
}

}  // namespace
}  // namespace zt::test
