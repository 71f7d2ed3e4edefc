// Policy never changes the numbers: ZeRO stage, prefetch, recomputation and lanes give the same bits.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "base/text.h"
#include "bits/ranks.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 16;
constexpr int kVocabulary = 51;
// Sanitizers look at what happens, not at how long it stays equal.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSteps = 3;
#else
constexpr int kSteps = 20;
#endif

// Other rows every step, with documents and unequal numbers of trained tokens.
std::vector<data::Row> rows_of_step(int step, int count) {
  std::vector<data::Row> rows;
  const RandomStream random{.seed = 11, .a = std::uint32_t(step)};
  for (int r = 0; r < count; ++r) {
    Ints ids;
    for (int i = 0; i < kLength; ++i)
      ids.push_back(std::int32_t(random.u64(std::uint64_t(r * kLength + i)) % kVocabulary));
    rows.push_back(row_of(ids, r % 2 == 0 ? Ints{kLength} : Ints{5, kLength - 5}));
    for (int i = 0; i < r; ++i) rows.back().labels[std::size_t(i + 1)] = -100;
  }
  return rows;
}

kernels::AdamW optimizer() {
  kernels::AdamW a;
  a.lr = 1e-2f;
  a.beta2 = 0.95f;
  a.decay = 0.1f;
  return a;
}

ZeroTrace run(const spec::ModelSpec& model, const ZeroCase& c, int steps = kSteps, int rows_in_all = 4) {
  return train_over_ranks(
      model, c, rows_in_all / (c.ranks * c.micros), kLength, steps,
      [&](int step) { return rows_of_step(step, rows_in_all); }, optimizer());
}

// Threads whose ops wait for up to 300 us now and then, and freed bytes that are NaN.
exec::LaneOptions delayed(std::uint64_t seed) {
  const auto count = std::make_shared<std::atomic<std::uint64_t>>(0);
  return {true,
          [seed, count](const schedule::Op&) {
            const std::uint64_t draw = RandomStream{.seed = seed}.u64((*count)++);
            if (draw % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 8 % 300));
          },
          true};
}

std::vector<schedule::Policy> policies(int stage, schedule::ReduceEvery reduce) {
  std::vector<schedule::Policy> all;
  for (const auto recompute :
       {schedule::Recompute::none, schedule::Recompute::full, schedule::Recompute::sqrt})
    for (const int prefetch : {0, 1, 3}) {
      if (stage < 3 && prefetch != 1) continue;
      schedule::Policy policy{recompute, 1};
      policy.zero.prefetch = prefetch;
      policy.zero.reduce = reduce;
      all.push_back(policy);
    }
  return all;
}

std::string words(const ZeroCase& c) {
  return cat(c.ranks, " ranks, stage ", c.stage, ", prefetch ", c.policy.zero.prefetch, ", recompute ",
             name(c.policy), c.selective ? " and selective" : "",
             c.lanes.threads ? ", threads with delays" : ", inline");
}

TEST_CASE("bits: stages, prefetch, recomputation and lanes give the same losses, norms and weights") {
  for (const std::string kind : {"gpt2", "llama"}) {
    const spec::ModelSpec model = small_model(kind, kind == "gpt2");
    for (const int ranks : {1, 2, 4}) {
      const ZeroTrace first = run(model, {.ranks = ranks});
      CHECK((kSteps < 20 || first.losses.back() < first.losses.front()));
      for (const int stage : {0, 1, 2, 3})
        for (const schedule::Policy& policy : policies(stage, schedule::ReduceEvery::micro))
          for (const bool threads : {false, true}) {
            ZeroCase c{.ranks = ranks, .stage = stage, .policy = policy};
            if (stage < 2) c.policy.zero.reduce = schedule::ReduceEvery::step;
            c.selective = threads && policy.recompute != schedule::Recompute::sqrt;
            if (threads) c.lanes = delayed(std::uint64_t(ranks * 100 + stage));
            const ZeroTrace trace = run(model, c);
            CHECK_MESSAGE(trace == first, kind, ": ", words(c));
            for (const auto& of_rank : trace.of_ranks) CHECK(of_rank == trace.of_ranks.front());
          }
    }
  }
}

TEST_CASE("bits: with gradients reduced every micro-batch, accumulation gives the same bits at every stage") {
  const spec::ModelSpec model = small_model("llama");
  for (const int ranks : {2, 4}) {
    ZeroCase c{.ranks = ranks, .micros = 4};
    c.policy.zero.reduce = schedule::ReduceEvery::micro;
    const ZeroTrace first = run(model, c, kSteps, 16);
    for (c.stage = 1; c.stage <= 3; ++c.stage)
      for (const schedule::Policy& policy : policies(c.stage, schedule::ReduceEvery::micro)) {
        c.policy = policy;
        c.lanes = delayed(7);
        CHECK_MESSAGE(run(model, c, kSteps, 16) == first, words(c));
      }
  }
}

TEST_CASE("bits: the same holds in bfloat16 with dropout, bfloat16 gradients and a bfloat16 wire") {
  const spec::ModelSpec model = small_model("gpt2");
  for (const Dtype grad : {Dtype::f32, Dtype::bf16})
    for (const Dtype wire : {Dtype::f32, Dtype::bf16}) {
      ZeroCase c{.ranks = 2, .dtype = Dtype::bf16, .grad_dtype = grad, .wire = wire, .dropout = 0.25f};
      c.policy.zero.reduce = schedule::ReduceEvery::micro;
      const ZeroTrace first = run(model, c);
      for (const int stage : {1, 2, 3})
        for (const schedule::Policy& policy : policies(stage, schedule::ReduceEvery::micro)) {
          c.stage = stage;
          c.policy = policy;
          c.lanes = delayed(9);
          CHECK_MESSAGE(run(model, c) == first, words(c), " gradients ", name(grad), " wire ", name(wire));
        }
    }
}

TEST_CASE("ranks: 1, 2, 3 and 4 ranks agree within 1e-5 over 20 steps, at any split of the batch") {
  for (const std::string kind : {"gpt2", "qwen3"}) {
    const spec::ModelSpec model = small_model(kind);
    const ZeroTrace one = run(model, {.ranks = 1, .micros = 12}, kSteps, 12);
    for (const int ranks : {1, 2, 3, 4})
      for (const std::int64_t micros : {1, 12 / ranks})
        for (const int stage : {0, 1, 2, 3}) {
          ZeroCase c{.ranks = ranks, .stage = stage, .micros = micros};
          if (stage >= 2) c.policy.zero.reduce = schedule::ReduceEvery::micro;
          const ZeroTrace trace = run(model, c, kSteps, 12);
          CHECK(std::abs(trace.norms[0] - one.norms[0]) <= 1e-6 * one.norms[0]);
          for (int step = 0; step < kSteps; ++step) {
            const auto i = std::size_t(step);
            CHECK(std::abs(trace.losses[i] - one.losses[i]) <= 1e-5 * one.losses[i]);
          }
        }
  }
}

TEST_CASE("ranks: what they send is what the plan says, and so is what they hold") {
  for (const bool tied : {true, false}) {
    const spec::ModelSpec model = small_model("llama", tied);
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int stage : {0, 1, 2, 3})
        for (const auto reduce : {schedule::ReduceEvery::micro, schedule::ReduceEvery::step})
          for (const Dtype wire : {Dtype::f32, Dtype::bf16}) {
            ZeroCase c{.ranks = ranks, .stage = stage, .micros = 2, .wire = wire};
            c.policy.zero.reduce = reduce;
            const int steps = 3;
            const ZeroTrace trace = run(model, c, steps, 2 * ranks);
            CAPTURE(words(c));
            for (const comm::Traffic& sent : trace.traffic) {
              CHECK(sent.all_gather == steps * trace.planned.all_gather);
              CHECK(sent.reduce_scatter == steps * trace.planned.reduce_scatter);
              CHECK(sent.all_reduce == steps * trace.planned.all_reduce);
            }
            for (const std::int64_t held : trace.held) CHECK(held == trace.planned_bytes);
          }
  }
}

TEST_CASE("ranks: frozen tensors never change, and the others are trained as on one rank") {
  spec::ModelSpec model = small_model("llama", false);
  for (spec::TensorSpec& tensor : model.blocks[0].tensors) tensor.trainable = false;
  for (spec::TensorSpec& tensor : model.blocks[1].tensors) tensor.trainable = false;
  model.blocks[3].tensors[0].trainable = false;
  model.blocks[3].tensors[5].trainable = false;
  const ZeroTrace before = run(model, {.ranks = 1}, 0), one = run(model, {.ranks = 1}, 5);
  for (const int ranks : {1, 2, 3})
    for (const int stage : {0, 1, 2, 3}) {
      ZeroCase c{.ranks = ranks, .stage = stage};
      if (stage >= 2) c.policy.zero.reduce = schedule::ReduceEvery::micro;
      const ZeroTrace trace = run(model, c, 5, 12);
      const ZeroTrace same = run(model, {.ranks = 1}, 5, 12);
      std::size_t start = 0;
      for (const spec::BlockSpec& block : model.blocks) {
        for (const spec::TensorSpec& tensor : block.tensors)
          for (std::size_t i = 0; i < std::size_t(tensor.elements()); ++i) {
            const std::size_t at = start + std::size_t(tensor.offset) + i;
            if (!tensor.trainable) CHECK(trace.values[at] == before.values[at]);
          }
        start += std::size_t(block.elements);
      }
      for (std::size_t i = 0; i < 5; ++i)
        CHECK(std::abs(trace.losses[i] - same.losses[i]) <= 1e-5 * same.losses[i]);
    }
  CHECK(one.values != before.values);
}

}  // namespace
}  // namespace zt::test
