#include "plan/buffers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "plan/step_plan.h"
#include "shard/param_store.h"

namespace zt::plan {
namespace {

spec::ModelSpec model_of(const std::string& kind) {
  if (kind == "gpt2") {
    return spec::from_config({{"model_type", "gpt2"},
                              {"n_embd", 20},
                              {"n_head", 5},
                              {"n_layer", 3},
                              {"n_positions", 64},
                              {"vocab_size", 51}},
                             kind);
  }
  return spec::from_config({{"model_type", kind},
                            {"hidden_size", 18},
                            {"num_hidden_layers", 3},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 2},
                            {"head_dim", 6},
                            {"intermediate_size", 27},
                            {"vocab_size", 51},
                            {"max_position_embeddings", 64}},
                           kind);
}

// GPT-2 124M as published. Source: Hugging Face, openai-community/gpt2, config.json.
spec::ModelSpec gpt2_124m() {
  return spec::from_config({{"model_type", "gpt2"},
                            {"n_embd", 768},
                            {"n_head", 12},
                            {"n_layer", 12},
                            {"n_positions", 1024},
                            {"vocab_size", 50257}},
                           "gpt2");
}

const std::vector<std::string> kKinds = {"gpt2", "llama", "qwen2", "qwen3"};

std::vector<BufferSet> sets_of(const spec::ModelSpec& m, const RunShape& run) {
  return {saved_buffers(m, run),
          forward_scratch(m, run),
          backward_scratch(m, run),
          mlp_backward_scratch(m, run),
          attention_backward_scratch(m, run),
          head_scratch(m, run)};
}

TEST_CASE("buffers: those of one set never overlap, start on 64 bytes and end inside it") {
  for (const std::string& kind : kKinds) {
    for (const std::int64_t tokens : {1, 7, 16, 1000}) {
      for (const int bytes : {2, 4}) {
        for (const int flags : {0, 1, 2, 3}) {
          CAPTURE(kind);
          CAPTURE(tokens);
          for (const BufferSet& set :
               sets_of(model_of(kind), {tokens, bytes, flags % 2 > 0, flags / 2 > 0})) {
            std::int64_t end = 0;
            for (const Buffer& b : set.list()) {
              CAPTURE(std::string(b.name));
              CHECK(b.offset % 64 == 0);
              CHECK(b.offset >= end);
              CHECK(b.rows > 0);
              CHECK(b.cols > 0);
              end = b.offset + b.rows * b.cols * b.element_bytes;
            }
            CHECK(set.bytes() >= end);
            CHECK(set.bytes() < end + 64);
          }
        }
      }
    }
  }
}

TEST_CASE("buffers: the workspace holds every scratch, and the shared part both of its tenants") {
  for (const std::string& kind : kKinds) {
    for (const int flags : {0, 1, 2, 3}) {
      const spec::ModelSpec m = model_of(kind);
      const RunShape run{33, 2, flags % 2 > 0, flags / 2 > 0};
      for (const BufferSet& set : {forward_scratch(m, run), backward_scratch(m, run), head_scratch(m, run)})
        CHECK(workspace_bytes(m, run) >= set.bytes());
      const Buffer shared = backward_scratch(m, run).at("shared");
      CHECK(shared.rows * shared.cols >= mlp_backward_scratch(m, run).bytes());
      CHECK(shared.rows * shared.cols >= attention_backward_scratch(m, run).bytes());
    }
  }
}

TEST_CASE("buffers: no one is given twice under one name, and a name that is not there is a bug") {
  for (const std::string& kind : kKinds) {
    for (const BufferSet& set : sets_of(model_of(kind), {5, 4, true, kind == "gpt2"})) {
      std::vector<std::string_view> names;
      for (const Buffer& b : set.list()) names.push_back(b.name);
      std::ranges::sort(names);
      CHECK(std::ranges::adjacent_find(names) == names.end());
    }
  }
  CHECK_THROWS_WITH_AS(saved_buffers(model_of("gpt2"), {5, 4, false}).at("q_norm.r"),
                       doctest::Contains("q_norm.r"), Error);
}

TEST_CASE("buffers: selective recomputation saves two widths and one MLP width a token less") {
  for (const std::string& kind : kKinds) {
    for (const int bytes : {2, 4}) {
      for (const std::int64_t tokens : {1, 16, 1000}) {
        CAPTURE(kind);
        const spec::ModelSpec m = model_of(kind);
        const RunShape kept{tokens, bytes, true}, selective{tokens, bytes, true, true};
        const std::int64_t D = kind == "gpt2" ? 20 : 18, F = kind == "gpt2" ? 80 : 27;
        const std::int64_t less = saved_buffers(m, kept).bytes() - saved_buffers(m, selective).bytes();
        CHECK(std::abs(less - (2 * D + F) * tokens * bytes) <= 3 * 64);
        const std::int64_t most = std::max(D, F) * tokens * bytes;
        for (const auto scratch : {&forward_scratch, &backward_scratch}) {
          const std::int64_t more = scratch(m, selective).bytes() - scratch(m, kept).bytes();
          CHECK(std::abs(more - most) <= 64);
        }
      }
    }
  }
}

TEST_CASE(
    "buffers: a GPT-2 block keeps the published 34 bytes a token and feature, less two of dropout masks") {
  // Korthikanti et al. 2022, table 2, no parallelism, without the last term (scores, which flash attention does not keep), in 2-byte
  // numbers: attention 11, MLP 19, norms 4. Masks (one byte each after attention and MLP) are functions of a counter
  // here. Besides: 16 bytes of norm statistics a token, and 4 of each head's log-sum-exp.
  const spec::ModelSpec m = gpt2_124m();
  const std::int64_t N = 1024, D = 768, small = (16 + 4 * 12) * N, input = 2 * N * D;
  CHECK(saved_buffers(m, {N, 2, true}).bytes() + input == (34 - 2) * N * D + small);
  // Selective leaves the linear layers' inputs that can be made again: 2 + 2 of the norms, 8 of the MLP.
  CHECK(saved_buffers(m, {N, 2, true, true}).bytes() + input == (34 - 2 - 12) * N * D + small);
}

TEST_CASE("buffers: logits are made in chunks of at least 64 tokens and about 64 MiB") {
  spec::ModelSpec m = model_of("llama");
  for (const int vocabulary : {2, 51, 50257, 131072, 2000000}) {
    m.vocab = vocabulary;
    for (const std::int64_t tokens : {1, 63, 4096, 1000000}) {
      const std::int64_t chunk = head_chunk(m, {tokens, 4, false});
      CHECK(chunk >= std::min<std::int64_t>(tokens, 64));
      CHECK(chunk <= tokens);
      if (chunk > 64) CHECK(chunk * vocabulary * 4 <= std::int64_t{64} << 20);
    }
  }
}

StepShape shape_of(int element_bytes, std::int64_t rows = 1, std::int64_t length = 64) {
  StepShape shape;
  shape.element_bytes = element_bytes;
  shape.sequence_length = length;
  shape.rows = shape.eval_rows = rows;
  return shape;
}

std::int64_t bill(const StepPlan& plan, const std::string& id) { return bytes_of(plan.bill, id); }

TEST_CASE(
    "plan: a parameter costs 4 + 4 + 8 bytes in float32, 2 + 4 + 12 in bfloat16, 4 or 2 without training") {
  // Rajbhandari et al. 2020 (ZeRO), section 3.1, with fp32 gradients. 124,439,808 parameters: GPT-2's own count.
  const spec::ModelSpec m = gpt2_124m();
  const std::int64_t n = 124439808, slack = std::int64_t(m.blocks.size()) * 64;
  REQUIRE(m.parameters() == n);
  const auto near = [&](std::int64_t bytes, std::int64_t expected) {
    return bytes >= expected && bytes < expected + 3 * slack;
  };
  const StepPlan wide = plan_step(m, shape_of(4)), narrow = plan_step(m, shape_of(2));
  CHECK(near(bill(wide, "parameters"), 4 * n));
  CHECK(near(bill(wide, "gradients"), 4 * n));
  CHECK(near(bill(wide, "moments"), 8 * n));
  CHECK(near(bill(narrow, "parameters"), 2 * n));
  CHECK(near(bill(narrow, "gradients"), 4 * n));
  CHECK(near(bill(narrow, "master_copy"), 4 * n));
  CHECK(near(bill(narrow, "moments"), 8 * n));
  CHECK(bill(wide, "master_copy") == 0);
  StepShape looking = shape_of(2);
  looking.training = false;
  const StepPlan eval = plan_step(m, looking);
  CHECK(near(bill(eval, "parameters"), 2 * n));
  CHECK(bill(eval, "gradients") == 0);
  CHECK(eval.train.ops.empty());
}

TEST_CASE("plan: what the bill says of parameters is what the store claims") {
  for (const std::string& kind : kKinds) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      for (const bool training : {true, false}) {
        const spec::ModelSpec m = model_of(kind);
        StepShape shape;
        shape.element_bytes = size_of(dtype);
        shape.training = training;
        for (const int ranks : {1, 2, 3, 8})
          for (const int stage : {0, 1, 2, 3})
            for (const auto reduce : {schedule::ReduceEvery::micro, schedule::ReduceEvery::step}) {
              shape.partition = Partition::of_stage(stage, ranks, reduce);
              std::int64_t sum = 0;
              for (const spec::BlockSpec& block : m.blocks) {
                const BlockBytes bytes = block_bytes(block, shape);
                sum += bytes.weights + bytes.grads + bytes.optimizer;
              }
              for (int rank = 0; rank < ranks; ++rank)
                CHECK(shard::ParamStore(m, dtype, training, {shape.partition, rank}).bytes() == sum);
            }
      }
    }
  }
}

TEST_CASE("plan: the total is the sum of its rows, and the text shows each") {
  const StepPlan plan = plan_step(model_of("llama"), shape_of(4));
  std::int64_t sum = 0;
  for (const BillRow& row : plan.bill) {
    CHECK(row.bytes > 0);
    if (row.place == Place::device) sum += row.bytes;
    CHECK(text(plan).find(row.what) != std::string::npos);
    CHECK(text(plan).find(with_commas(row.bytes)) != std::string::npos);
  }
  CHECK(plan.total() == sum);
  CHECK(text(plan).find(fingerprint(plan.train)) != std::string::npos);
}

TEST_CASE(
    "plan: GPT-2 124M trains with micro-batches of 4 x 1024 in less than 6 GB, and recompute needs less") {
  const spec::ModelSpec m = gpt2_124m();
  StepShape shape = shape_of(4, 4, 1024);
  const std::int64_t kept = plan_step(m, shape).total();
  CHECK(kept < 6000000000);
  CHECK(kept > 16 * m.parameters());
  shape.policy = {schedule::Recompute::full, 1};
  CHECK(plan_step(m, shape).total() < kept);
  CHECK(plan_step(m, shape_of(2, 4, 1024)).arena < plan_step(m, shape_of(4, 4, 1024)).arena * 6 / 10);
}

TEST_CASE("plan: micro-batches cost their ids only, and one arena serves training and evaluation") {
  const spec::ModelSpec m = model_of("llama");
  StepShape shape = shape_of(4, 2);
  const StepPlan one = plan_step(m, shape);
  shape.micros = 5;
  const StepPlan five = plan_step(m, shape);
  CHECK(five.arena == one.arena);
  CHECK(five.total() - one.total() == 4 * batch_bytes(shape.train_shape()));
  shape.eval_rows = 100;
  const StepPlan wide = plan_step(m, shape);
  CHECK(wide.arena == wide.eval.arena_bytes);
  CHECK(wide.workspace == workspace_bytes(m, shape.eval_shape()));
}

}  // namespace
}  // namespace zt::plan
