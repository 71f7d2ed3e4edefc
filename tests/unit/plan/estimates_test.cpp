#include "plan/estimates.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "support/known_models.h"

namespace zt::plan {
namespace {

std::string line(const std::string& text, const std::string& start) {
  for (const std::string& l : split(text, '\n')) {
    if (starts_with(trim(l), start)) return l;
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

EstimateAsk ask_of(std::int64_t ranks, int stage) {
  EstimateAsk ask;
  ask.ranks = ranks;
  ask.stage = stage;
  ask.ours = 19.4e9;
  return ask;
}

TEST_CASE("estimates: Llama-2-70B on 64 ranks at stage 3, each by its own convention") {
  const std::string text = estimates_text(test::llama2_70b(), ask_of(64, 3));
  CHECK(has(text, "68,976,648,192 parameters on each of 64 ranks, stage 3"));
  CHECK(has(line(text, "this plan"), "19.400"));
  // 16/64 x 68.98 GB; 18/64 x 68.98 + 4 x 262.1M of an embedding; (6 + 12/64) x 68.98; 18 x and 8 x 68.98.
  CHECK(has(line(text, "ZeRO paper"), " 17.244 "));
  CHECK(has(line(text, "DeepSpeed"), " 20.448 "));
  CHECK(has(line(text, "DeepSpeed"), "printed there, in units of 2^30, as 19.04GB"));
  CHECK(has(line(text, "DeepSpeed"), "262,144,000"));
  CHECK(has(line(text, "Megatron-LM, fp32 gradients"), " 426.793 "));
  CHECK(has(line(text, "Megatron-LM, fp32 gradients"), "as at stage 1"));
  CHECK(has(line(text, "LLaMA-Factory, full "), " 1241.580 "));
  CHECK(has(line(text, "LLaMA-Factory, full, pure bf16"), " 551.813 "));
}

TEST_CASE("estimates: every stage and number of ranks has its lines, and DeepSpeed none below stage 2") {
  const double psi = 68.976648192;
  for (const std::int64_t ranks : {1, 8, 1000000}) {
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(ranks);
      CAPTURE(stage);
      const std::string text = estimates_text(test::llama2_70b(), ask_of(ranks, stage));
      const double d = double(ranks);
      const double zero[] = {16, 4 + 12 / d, 2 + 14 / d, 16 / d};
      CHECK(has(line(text, "ZeRO paper"), fmt::format(" {:.3f} ", zero[stage] * psi)));
      const double megatron = stage == 0 ? 18 : 6 + 12 / d;
      CHECK(has(line(text, "Megatron-LM"), fmt::format(" {:.3f} ", megatron * psi)));
      CHECK(has(line(text, "DeepSpeed"), "estimates stages 2 and 3 only") == (stage < 2));
      if (stage == 2) CHECK(has(line(text, "DeepSpeed"), fmt::format(" {:.3f} ", (4 + 16 / d) * psi)));
    }
  }
}

TEST_CASE(
    "estimates: the tokens that hide traffic are those of the formula, and only asked for they are told") {
  EstimateAsk ask = ask_of(64, 3);
  CHECK_FALSE(has(estimates_text(test::llama2_70b(), ask), "tokens"));
  ask.flops = 989e12, ask.bandwidth = 400e9, ask.tokens = 4096;
  std::string text = estimates_text(test::llama2_70b(), ask);
  CHECK(has(line(text, "gathers in forward"), "from 2,473 tokens of a micro-batch on; 4,096 here: hidden"));
  ask.bandwidth = 12.5e9;
  text = estimates_text(test::llama2_70b(), ask);
  CHECK(has(line(text, "gathers in forward"),
            "from 79,120 tokens of a micro-batch on; 4,096 here: not hidden"));
  CHECK(has(line(text, "gathers and reduction in backward"), "from 79,120 tokens"));
  ask.recompute = true;
  CHECK(has(line(estimates_text(test::llama2_70b(), ask), "gathers and reduction"), "from 52,747 tokens"));
  ask.sequence_length = 8192 * 6;  // attention doubles what is computed
  CHECK(has(line(estimates_text(test::llama2_70b(), ask), "gathers in forward"), "from 39,560 tokens"));
  ask.stage = 2;
  text = estimates_text(test::llama2_70b(), ask);
  CHECK(has(line(text, "reduction in backward"), "from 19,780 tokens"));
  CHECK_FALSE(has(text, "gathers in forward"));
  ask.ranks = 1;
  CHECK_FALSE(has(estimates_text(test::llama2_70b(), ask), "tokens"));
}

TEST_CASE("estimates: a link next to nothing is told as a number that a person can read") {
  EstimateAsk ask = ask_of(2, 3);
  ask.flops = 1e30, ask.bandwidth = 1e-30, ask.tokens = 1;
  CHECK(has(estimates_text(test::llama2_70b(), ask), "9,000,000,000,000,000,000 tokens"));
}

TEST_CASE("estimates: conventions are told by name, in one order, whatever was asked first") {
  const double psi = 68.976648192;
  const struct {
    const char *name, *who;
    double bytes;
  } rows[] = {{"zero", "ZeRO paper ", 16. / 64},
              {"zero-fp32-gradients", "ZeRO paper, fp32 gradients", 18. / 64},
              {"zero-infinity", "ZeRO-Infinity", 20. / 64},
              {"megatron-bf16", "Megatron-LM, fp32 gradients", 6 + 12. / 64},
              {"megatron-fp16", "Megatron-LM, all in fp16", 4 + 16. / 64},
              {"megatron-fp32", "Megatron-LM, all in fp32", 8 + 8. / 64},
              {"llama-factory-full", "LLaMA-Factory, full ", 18},
              {"llama-factory-pure-bf16", "LLaMA-Factory, full, pure bf16", 8},
              {"llama-factory-lora", "LLaMA-Factory, LoRA", 2},
              {"llama-factory-qlora-8", "LLaMA-Factory, QLoRA, 8 bits", 1},
              {"llama-factory-qlora-4", "LLaMA-Factory, QLoRA, 4 bits", 0.5},
              {"llama-factory-qlora-2", "LLaMA-Factory, QLoRA, 2 bits", 0.25}};
  for (const auto& row : rows) {
    CAPTURE(std::string(row.name));
    EstimateAsk ask = ask_of(64, 3);
    ask.conventions = {row.name};
    const std::string text = estimates_text(test::llama2_70b(), ask);
    CHECK(has(line(text, row.who), fmt::format(" {:.3f} ", row.bytes)));
    CHECK(has(line(text, row.who), fmt::format(" {:.3f} ", row.bytes * psi)));
    CHECK(split(text, '\n').size() == 5);  // title, heads, ours, theirs, and nothing after the last line
  }
  EstimateAsk all = ask_of(64, 3);
  all.conventions = estimate_names();
  CHECK(split(estimates_text(test::llama2_70b(), all), '\n').size() == 4 + estimate_names().size());
}

TEST_CASE("estimates: DeepSpeed's offloading is told with what it takes of a node") {
  EstimateAsk ask = ask_of(64, 3);
  ask.ranks_per_node = 8;
  ask.conventions = {"deepspeed-offload-optimizer", "deepspeed-offload-all"};
  const std::string text = estimates_text(test::llama2_70b(), ask);
  // 4 x 262.1M + 2/64 x 68.98 GB, and 16/8 x 1.5 x 68.98 of each of eight nodes; all: 18/8.
  CHECK(has(line(text, "DeepSpeed, optimizer offloaded"), " 3.204 "));
  CHECK(has(line(text, "DeepSpeed, optimizer offloaded"), "206.9 GB of each node's memory"));
  CHECK(has(line(text, "DeepSpeed, all offloaded"), " 1.049 "));
  CHECK(has(line(text, "DeepSpeed, all offloaded"), "232.8 GB of each node's memory"));
  // A last node that is not full: still 64 ranks share.
  ask.ranks_per_node = 7;
  CHECK(has(line(estimates_text(test::llama2_70b(), ask), "DeepSpeed, optimizer offloaded"), " 3.204 "));
  ask.stage = 2;
  CHECK(has(line(estimates_text(test::llama2_70b(), ask), "DeepSpeed, all offloaded"), "at stage 3 only"));
  CHECK(has(line(estimates_text(test::llama2_70b(), ask), "DeepSpeed, optimizer offloaded"), " 137.953 "));
}

TEST_CASE("estimates: nonsense is refused, all of it at once") {
  EstimateAsk ask = ask_of(0, 4);
  ask.ranks_per_node = -1;
  ask.conventions = {"megatron-bf61", "zero", "xyzzy"};
  for (const char* part : {"ranks must be at least 1, is 0", "stage must be 0 to 3, is 4", "ranks_per_node",
                           "'megatron-bf61'; did you mean 'megatron-bf16'?", "'xyzzy'; there are zero, "})
    CHECK_THROWS_WITH_AS(estimates_text(test::llama2_70b(), ask), doctest::Contains(part), Error);
}

TEST_CASE("estimates: the largest module is a matrix with its bias, as DeepSpeed counts layers") {
  CHECK(largest_module(test::llama2_70b()) == 32000 * 8192);
  const spec::ModelSpec wide = spec::from_config({{"model_type", "gpt2"},
                                                  {"n_embd", 64},
                                                  {"n_head", 4},
                                                  {"n_layer", 1},
                                                  {"n_positions", 16},
                                                  {"vocab_size", 100}},
                                                 "wide");
  CHECK(largest_module(wide) == 64 * 256 + 256);
}

}  // namespace
}  // namespace zt::plan
