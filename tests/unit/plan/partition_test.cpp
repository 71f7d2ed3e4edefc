#include "plan/partition.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "plan/step_plan.h"
#include "shard/param_store.h"
#include "support/tiny_models.h"

namespace zt::plan {
namespace {

using schedule::ReduceEvery;

// A Llama whose every block divides by 64 ranks of 32 elements, so that there is no padding.
spec::ModelSpec even_model() {
  return spec::from_config({{"model_type", "llama"},
                            {"hidden_size", 2048},
                            {"num_hidden_layers", 2},
                            {"num_attention_heads", 16},
                            {"intermediate_size", 64},
                            {"vocab_size", 64},
                            {"max_position_embeddings", 8},
                            {"tie_word_embeddings", true}},
                           "test");
}

// Rajbhandari et al. 2020, section 5, with bf16 weights, `g` bytes of gradient and K = 12: bytes a rank holds.
double formula(double parameters, int stage, int ranks, int g) {
  switch (stage) {
    case 0: return (2 + g + 12) * parameters;
    case 1: return (2 + g) * parameters + 12 * parameters / ranks;
    case 2: return 2 * parameters + (g + 12) * parameters / ranks;
    default: return (2 + g + 12) * parameters / ranks;
  }
}

ReduceEvery usual(int stage) { return stage >= 2 ? ReduceEvery::micro : ReduceEvery::step; }

TEST_CASE(
    "memory: a rank's model state is the ZeRO paper's formula to the byte, at every stage and number of "
    "ranks") {
  const spec::ModelSpec m = even_model();
  const auto parameters = double(m.parameters());
  for (const Dtype gradient : {Dtype::bf16, Dtype::f32})
    for (const int stage : {0, 1, 2, 3})
      for (const int ranks : {1, 2, 4, 8, 64}) {
        CAPTURE(stage);
        CAPTURE(ranks);
        const shard::Share share{Partition::of_stage(stage, ranks, usual(stage)), ranks - 1, gradient};
        const shard::ParamStore store(m, Dtype::bf16, true, share);
        CHECK(double(store.bytes()) == formula(parameters, stage, ranks, size_of(gradient)));
      }
  // The paper's 16 bytes a parameter, and 18 with fp32 gradients.
  CHECK(formula(1, 0, 64, 2) == 16);
  CHECK(formula(1, 0, 64, 4) == 18);
}

TEST_CASE(
    "memory: where blocks do not divide, padding is all that is added, less than 128 bytes a slice and "
    "buffer") {
  const spec::ModelSpec m = test::small_model("llama", false);
  const double blocks = double(m.blocks.size());
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 2, 3, 4, 8, 64})
      for (int rank = 0; rank < ranks; ++rank) {
        CAPTURE(stage);
        CAPTURE(ranks);
        const shard::ParamStore store(m, Dtype::bf16, true,
                                      {Partition::of_stage(stage, ranks, usual(stage)), rank});
        const double exact = formula(double(m.parameters()), stage, ranks, 4);
        const double whole_buffers = stage == 0 ? 0 : stage == 1 ? 2 : stage == 2 ? 1 : 0;
        CHECK(double(store.bytes()) >= exact);
        CHECK(double(store.bytes()) <
              exact + blocks * (128 * 5 + 128.0 * ranks * (whole_buffers + (stage == 0 ? 2 : 0))));
      }
}

StepShape shape_of(int stage, int ranks, int micros, ReduceEvery reduce) {
  StepShape shape;
  shape.element_bytes = 2;
  shape.sequence_length = 8;
  shape.micros = micros;
  shape.partition = Partition::of_stage(stage, ranks, reduce);
  shape.policy.zero.gather_weights = stage == 3;
  shape.policy.zero.reduce = reduce;
  return shape;
}

TEST_CASE(
    "traffic: stages 0 and 1 send 2 Psi (N-1)/N, stage 2 (A+1), stage 3 at most 3 A, in elements of the "
    "wire") {
  const spec::ModelSpec m = even_model();
  const auto psi = double(m.parameters());
  for (const int ranks : {2, 4, 8, 64})
    for (const int micros : {1, 4}) {
      const double share = psi * (ranks - 1) / ranks;
      const auto planned = [&](int stage) {
        return plan_step(m, shape_of(stage, ranks, micros, usual(stage)));
      };
      // Gradients travel as fp32, weights as bf16.
      const StepPlan zero = planned(0), one = planned(1), two = planned(2), three = planned(3);
      CHECK(double(zero.traffic.all_reduce) == share * (4 + 4));
      CHECK(zero.traffic.total() == zero.traffic.all_reduce);
      CHECK(double(one.traffic.reduce_scatter) == share * 4);
      CHECK(double(one.traffic.all_gather) == share * 2);
      CHECK(double(two.traffic.reduce_scatter) == micros * share * 4);
      CHECK(double(two.traffic.all_gather) == share * 2);
      CHECK(double(three.traffic.reduce_scatter) == micros * share * 4);
      // The paper's two gathers a block and micro-batch, but: the embedding's backward needs no weights, while
      // the tied head reads them once more; the head has no backward op; the last layer stays gathered from
      // forward to backward, the first one from a micro-batch to the next.
      const auto block = [&](int k) { return double(m.blocks[std::size_t(k)].elements); };
      const double gathered = micros * (2 * block(0) + block(3) + block(2)) + (micros + 1) * block(1);
      CHECK(double(three.traffic.all_gather) == gathered * 2 * (ranks - 1) / ranks);
      for (const StepPlan& plan : {zero, one, two, three}) CHECK(plan.padding_traffic == 0);
      for (const StepPlan& plan : {zero, one, two}) CHECK(plan.traffic.total() == plan.paper_traffic);
      CHECK(double(three.paper_traffic) == micros * share * (4 + 2 + 2));
    }
}

TEST_CASE(
    "traffic: a model of many layers comes near the paper's 3 Psi at stage 3, and the difference is stated") {
  spec::ModelSpec m = even_model();
  const spec::BlockSpec layer = m.blocks[1];
  for (int i = 0; i < 60; ++i) m.blocks.insert(m.blocks.begin() + 1, layer);
  m.layers += 60;
  const StepPlan plan = plan_step(m, shape_of(3, 8, 1, ReduceEvery::micro));
  CHECK(double(plan.traffic.total()) > 0.98 * double(plan.paper_traffic));
  CHECK(text(plan).find("- weights still gathered") != std::string::npos);
}

TEST_CASE("traffic: padding is told apart from the formula") {
  const spec::ModelSpec m = test::small_model("llama", false);
  for (const int stage : {0, 1, 2}) {
    const StepPlan plan = plan_step(m, shape_of(stage, 3, 2, usual(stage)));
    CHECK(plan.padding_traffic > 0);
    CHECK(plan.traffic.total() == plan.paper_traffic + plan.padding_traffic);
  }
}

TEST_CASE("traffic: blocks that stay gathered cost memory and save gathers") {
  const spec::ModelSpec m = even_model();
  StepShape shape = shape_of(3, 4, 1, ReduceEvery::micro);
  const StepPlan none = plan_step(m, shape);
  shape.policy.zero.keep_blocks = 2;
  const StepPlan kept = plan_step(m, shape);
  CHECK(kept.traffic.all_gather < none.traffic.all_gather);
  CHECK(kept.arena >= none.arena);
  CHECK(none.kept_traffic == 0);
  CHECK(kept.kept_bytes == kept.train.arena_bytes - none.train.arena_bytes);
  CHECK(kept.kept_traffic == none.traffic.total() - kept.traffic.total());
  // The last layer stays gathered anyway, so one more saves its one gather.
  CHECK(double(kept.kept_traffic) == double(m.blocks[1].elements) * 2 * 3 / 4);
  CHECK(text(kept).find("weights kept gathered by the recipe cost ") != std::string::npos);
}

}  // namespace
}  // namespace zt::plan
