// Runs that are larger than any machine: an answer or a clear refusal, in no time, and no number that ran over.
#include <doctest/doctest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "plan/recipe_shape.h"

namespace zt::plan {
namespace {

nlohmann::json llama_config(std::int64_t hidden, std::int64_t intermediate, int layers, int heads,
                            int kv_heads, std::int64_t vocab) {
  return {{"model_type", "llama"},
          {"hidden_size", hidden},
          {"intermediate_size", intermediate},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"vocab_size", vocab},
          {"max_position_embeddings", 1 << 24}};
}

const nlohmann::json kLlama70B = llama_config(8192, 28672, 80, 64, 8, 32000);
// Rajbhandari et al. 2021 (ZeRO-Infinity), figure 2a: the row of 10.05 trillion parameters.
const nlohmann::json kGpt10T = {{"model_type", "gpt2"}, {"n_embd", 65536},     {"n_head", 512},
                                {"n_layer", 195},       {"n_positions", 1024}, {"vocab_size", 50257}};

recipe::Recipe recipe_of(const nlohmann::json& config, int ranks, const std::string& sections = "") {
  const std::string train = sections.find("train:") == std::string::npos ? "train: {max_steps: 1}\n" : "";
  return recipe::parse(cat("model: {config: ", config.dump(), ", dtype: bfloat16}\n",
                           "tokenizer: {type: byte}\ndata: {sequence_length: 1024, train: [{path: x}]}\n",
                           train, sections),
                       "big.yaml", {}, ranks)
      .recipe;
}

// Processor seconds, so that a busy machine doesn't count. Sanitizers make everything several times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kAtMost = 60;
#else
constexpr double kAtMost = 5;
#endif
double processor_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

StepPlan planned(const nlohmann::json& config, int ranks, const std::string& sections = "") {
  const double start = processor_seconds();
  const recipe::Recipe r = recipe_of(config, ranks, sections);
  StepPlan plan = plan_step(spec::from_config(config, "big"), step_shape(r, true, ranks));
  const double seconds = processor_seconds() - start;
  CHECK(seconds < kAtMost);
  return plan;
}

std::string refusal(const nlohmann::json& config, int ranks, const std::string& sections) {
  const double start = processor_seconds();
  std::string text;
  try {
    (void)plan_step(spec::from_config(config, "big"),
                    step_shape(recipe_of(config, ranks, sections), true, ranks));
  } catch (const Error& e) {
    CHECK(e.blame() != Blame::bug);
    text = e.what();
  }
  CHECK(processor_seconds() - start < kAtMost);
  CHECK(text.size() < 3000);
  return text;
}

// Right values by Python's integers: slices of s = ceil(ceil(e / ranks) / 32) * 32 elements of each block of e.
TEST_CASE(
    "big: Llama-2-70B on a million ranks costs a slice of each block a rank, and traffic of nearly all "
    "weights") {
  // e = 262,144,000 | 80 x 855,654,400 | 262,152,192; s = 288 | 80 x 864 | 288.
  const StepPlan plan = planned(kLlama70B, 1000000);
  CHECK(bytes_of(plan.bill, "parameters") == 139392);   // 2 s
  CHECK(bytes_of(plan.bill, "master_copy") == 278784);  // 4 s
  CHECK(bytes_of(plan.bill, "moments") == 557568);      // 8 s
  CHECK(bytes_of(plan.bill, "gradients") == 278784);    // 4 s
  CHECK(plan.traffic.reduce_scatter == 278783721216);   // 4 s x 999,999
  // Weights in bf16 are gathered for forward and for backward, 2 x 2 s x 999,999 = 278,783,721,216 bytes; but once only
  // those of the embedding and of the head, and of the last block, whose backward comes right after the head.
  CHECK(plan.traffic.all_gather == 278783721216 - 575999424 - 575999424 - 1727998272);
}

TEST_CASE(
    "big: a model of 10 trillion parameters on one rank is 18 bytes a parameter, and on a million a slice") {
  // 195 (12 h^2 + 13 h) + (50257 + 1024) h + 2 h, h = 65536.
  const std::int64_t parameters = 10053750489088;
  REQUIRE(spec::from_config(kGpt10T, "big").parameters() == parameters);
  const StepPlan one = planned(kGpt10T, 1);
  const std::int64_t state = bytes_of(one.bill, "parameters") + bytes_of(one.bill, "master_copy") +
                             bytes_of(one.bill, "moments") + bytes_of(one.bill, "gradients");
  CHECK(state >= 18 * parameters);
  CHECK(state < 18 * parameters + 200 * 5 * 64);
  CHECK(one.total() > state);
  const StepPlan many = planned(kGpt10T, 1000000);
  CHECK(bytes_of(many.bill, "parameters") * 1000000 >= 2 * parameters);
  CHECK(bytes_of(many.bill, "parameters") * 1000000 < 2 * parameters * 101 / 100);
  CHECK(many.traffic.reduce_scatter > 4 * parameters * 99 / 100);
  CHECK(many.traffic.reduce_scatter < 4 * parameters * 101 / 100);
}

TEST_CASE("big: traffic of 150 micro-batches is 150 times that of one") {
  const std::string many = "train: {max_steps: 1, global_batch_size: 150000}\n";  // on 1000 ranks
  const StepPlan one = planned(kGpt10T, 1000), all = planned(kGpt10T, 1000, many);
  CHECK(all.traffic.reduce_scatter == 150 * one.traffic.reduce_scatter);
  CHECK(all.traffic.all_gather > 145 * one.traffic.all_gather);
  CHECK(all.total() > 0);
}

TEST_CASE("big: what is more than the planner counts is refused, with what and how much") {
  // The largest config that spec takes.
  const nlohmann::json largest = llama_config(1 << 24, 1 << 16, 4096, 1 << 12, 1, 1 << 16);
  CHECK(refusal(largest, 1, "") != "");
  CHECK(refusal(llama_config(1 << 20, 1 << 20, 4096, 1 << 8, 1 << 8, 1 << 20), 1, "")
            .find("this run is too large to be planned") != std::string::npos);
  const std::string batch = refusal(kLlama70B, 1, "train: {max_steps: 1, micro_batch_size: 10000000}\n");
  CHECK(batch.find("activations of a block") != std::string::npos);
  CHECK(batch.find("the planner counts up to 64.00 TiB") != std::string::npos);
  CHECK(refusal(kLlama70B, 1, "train: {max_steps: 1, global_batch_size: 1000000000}\n") != "");
  CHECK(refusal(kGpt10T, 1000000, "train: {max_steps: 1, global_batch_size: 1000000000}\n") != "");
}

TEST_CASE("big: checkpoints kept without end are capped at an exbibyte, not negative") {
  const StepPlan plan = planned(kGpt10T, 8,
                                "train: {max_steps: 1000000000}\n"
                                "checkpoint: {every_steps: 1, keep_last: 1000000000}\n");
  CHECK(bytes_of(plan.bill, "checkpoints_beside") == std::int64_t{1} << 60);
}

TEST_CASE("big: the fullest slice is found at edges of parts, as a look at every rank finds it") {
  for (const int frozen : {0, 1, 2, 3, 4, 5, 6, 7, 8})
    for (const int ranks : {1, 2, 3, 5, 8, 64, 1000}) {
      spec::ModelSpec m = spec::from_config(llama_config(48, 80, 1, 3, 1, 100), "small");
      for (std::size_t t = 0; t < m.blocks[1].tensors.size(); ++t)
        m.blocks[1].tensors[t].trainable = int(t % 4) != frozen % 4 && int(t) != frozen;
      const BlockLayout layout(m.blocks[1], Partition::of_stage(3, ranks, schedule::ReduceEvery::micro));
      std::int64_t most = 0;
      for (int rank = 0; rank < ranks; ++rank) most = std::max(most, layout.trained(layout.owned(rank)));
      CHECK(layout.most_trained() == most);
    }
}

}  // namespace
}  // namespace zt::plan
