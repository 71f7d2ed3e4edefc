// Selective recomputation: blocks drop what one element-wise pass makes again, and no number changes.
#include <doctest/doctest.h>

#include "base/text.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 12;
constexpr int kVocabulary = 23;

nlohmann::json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 12},           {"n_head", 3},
          {"n_layer", 3},         {"n_positions", kLength}, {"vocab_size", kVocabulary}};
}
// Wider than its MLP, so that the norms' outputs are the largest of what is made again.
nlohmann::json llama(const std::string& kind) {
  return {{"model_type", kind},       {"hidden_size", 18},         {"num_hidden_layers", 3},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},  {"head_dim", 4},
          {"intermediate_size", 14},  {"vocab_size", kVocabulary}, {"max_position_embeddings", 32}};
}

std::vector<nlohmann::json> configs() {
  nlohmann::json bare = gpt2(), own_head = llama("mistral");
  bare["bias"] = false;
  own_head["tie_word_embeddings"] = false;
  own_head["sliding_window"] = 3;
  return {gpt2(), bare, llama("llama"), llama("qwen2"), llama("qwen3"), own_head};
}

struct Case {
  Dtype dtype = Dtype::f32;
  float dropout = 0;
  schedule::Policy policy = {};
  bool frozen = false;  // every second tensor
};

exec::EngineOptions options(const Case& c, bool selective) {
  exec::EngineOptions o;
  o.shape.sequence_length = kLength;
  o.shape.rows = o.shape.eval_rows = 2;
  o.shape.micros = 2;
  o.shape.policy = c.policy;
  o.shape.selective = selective;
  o.dtype = c.dtype;
  o.dropout = c.dropout;
  o.seed = 5;
  return o;
}

spec::ModelSpec model_of(const nlohmann::json& config, const Case& c) {
  spec::ModelSpec model = spec::from_config(config, "a test");
  int number = 0;
  for (spec::BlockSpec& block : model.blocks)
    for (spec::TensorSpec& tensor : block.tensors) tensor.trainable = !c.frozen || ++number % 2 == 0;
  return model;
}

// Losses and norms of three steps, then a loss of evaluation, every gradient and every weight.
std::vector<double> trace(const spec::ModelSpec& model, const exec::EngineOptions& o) {
  exec::Engine engine(model, o);
  spec::ModelSpec wide = model;
  wide.init_std = 0.3f;
  shard::initialise(engine.params(), wide, 5);
  const data::Row one = row_of({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}, {12});
  const data::Row two = row_of({9, 7, 9, 3, 2, 3, 8, 4, 6, 2}, {4, 6});
  const auto micros = micro_batches({one, two, two, one}, 2, kLength);
  std::vector<double> out;
  kernels::AdamW adamw;
  adamw.lr = 1e-2f;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    adamw.t = step;
    const auto r = engine.train_step(micros, supervised(micros), step, adamw, 1.0);
    out.insert(out.end(), {r.loss_sum, r.grad_norm});
  }
  out.push_back(engine.evaluate(micros[0]));
  engine.gradients(micros, supervised(micros), 4);
  for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
    if (!tensor.trainable) return;
    const Floats gradient = gradients_of(engine.params(), block, tensor);
    out.insert(out.end(), gradient.begin(), gradient.end());
  });
  const Floats weights = all_weights(engine.params(), model);
  out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

void check_same(const nlohmann::json& config, const Case& c) {
  INFO(config.dump(), ", ", name(c.dtype), ", dropout ", c.dropout, ", recompute ", name(c.policy),
       c.frozen ? ", half frozen" : "");
  const spec::ModelSpec model = model_of(config, c);
  const auto kept = trace(model, options(c, false)), remade = trace(model, options(c, true));
  CHECK(std::isfinite(kept[0]));
  CHECK(kept[0] != kept[2]);  // it learns, so later steps see what the gradients did
  CHECK(remade == kept);
}

TEST_CASE("selective: losses, gradients and weights have the same bits in every model, format and dropout") {
  for (const nlohmann::json& config : configs())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const float dropout : {0.f, 0.3f}) check_same(config, {dtype, dropout});
}

TEST_CASE("selective: blocks that are recomputed as a whole, and frozen tensors, change nothing about that") {
  for (const nlohmann::json& config : configs())
    for (const float dropout : {0.f, 0.3f}) {
      for (const auto recompute :
           {schedule::Recompute::full, schedule::Recompute::every, schedule::Recompute::sqrt})
        check_same(config, {Dtype::f32, dropout, {recompute, 2}});
      check_same(config, {Dtype::f32, dropout, {}, true});
    }
}

TEST_CASE("selective: the arena holds as many bytes less as three layers saved") {
  for (const nlohmann::json& config : configs())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      CAPTURE(config.dump());
      const spec::ModelSpec model = model_of(config, {});
      const exec::Engine kept(model, options({dtype}, false)), remade(model, options({dtype}, true));
      const bool gpt = config["model_type"] == "gpt2";
      const std::int64_t D = gpt ? 12 : 18, F = gpt ? 48 : 14, N = 2 * kLength;
      const std::int64_t less = 3 * (2 * D + F) * N * size_of(dtype);
      CHECK(std::abs(kept.plan().arena - remade.plan().arena - less) <= 3 * 3 * 64);
      CHECK(remade.held_bytes() == remade.plan().total());
    }
}

}  // namespace
}  // namespace zt::test
