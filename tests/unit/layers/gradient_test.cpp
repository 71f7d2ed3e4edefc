// The gradients of whole models against the slope of their own loss, for the variants that the PyTorch goldens
// do not hold: without biases, with biases everywhere, untied, windows, and with dropout, whose masks are a
// function of seed and step, so that the loss is one too.
#include <doctest/doctest.h>

#include <cmath>

#include "support/tiny_models.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 12;

struct Variant {
  std::string what;
  nlohmann::json changes;
  float dropout = 0.f;
};

nlohmann::json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 12},           {"n_head", 3},
          {"n_layer", 2},         {"n_positions", kLength}, {"vocab_size", 23}};
}
nlohmann::json llama() {
  return {{"model_type", "llama"},    {"hidden_size", 10},          {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},   {"head_dim", 4},
          {"intermediate_size", 14},  {"vocab_size", 23},           {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", true}};
}

const std::vector<std::pair<nlohmann::json, Variant>>& variants() {
  static const std::vector<std::pair<nlohmann::json, Variant>> all = {
      {gpt2(), {"as it is", {}}},
      {gpt2(), {"no biases", {{"bias", false}}}},
      {gpt2(), {"own head", {{"tie_word_embeddings", false}}}},
      {gpt2(), {"unscaled attention", {{"scale_attn_weights", false}}}},
      {gpt2(), {"dropout", {}, 0.3f}},
      {llama(), {"as it is", {}}},
      {llama(), {"biases everywhere", {{"attention_bias", true}, {"mlp_bias", true}}}},
      {llama(), {"own head", {{"tie_word_embeddings", false}}}},
      {llama(), {"dropout", {}, 0.3f}},
      {llama(), {"qwen3 with dropout", {{"model_type", "qwen3"}}, 0.2f}},
      {llama(), {"mistral with a window", {{"model_type", "mistral"}, {"sliding_window", 3}}}},
  };
  return all;
}

// Weights of size 0.3, norms near 1, and biases that are not 0.
void fill(shard::ParamStore& store, const spec::ModelSpec& model) {
  std::uint32_t number = 0;
  for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
    const RandomStream random{.seed = 8, .a = number++};
    Floats values(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto words = random.words(i);
      values[i] = 0.3f * normal_pair(words[0], words[1])[0];
      if (tensor.init == spec::Init::ones) values[i] += 1.f;
    }
    store.set(block, tensor.offset, values.data(), tensor.elements());
  });
}

double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

Floats unit(Floats x) {
  const double size = std::sqrt(dot(x, x));
  for (float& v : x) v = float(v / size);
  return x;
}

Floats random_direction(std::size_t size, std::uint32_t number) {
  Floats x(size);
  const RandomStream random{.seed = 9, .a = number};
  for (std::size_t i = 0; i < size; ++i) {
    const auto words = random.words(i);
    x[i] = normal_pair(words[0], words[1])[0];
  }
  return unit(x);
}

// The slope of the summed loss along a direction in one tensor's weights, by a central difference.
double slope(exec::Engine& engine, const std::vector<exec::HostBatch>& micros, int block,
             const spec::TensorSpec& tensor, const Floats& direction, float h) {
  const Floats kept = weights_of(engine.params(), block, tensor);
  double loss[2];
  for (const int side : {0, 1}) {
    Floats moved = kept;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += (side == 0 ? h : -h) * direction[i];
    engine.params().set(block, tensor.offset, moved.data(), tensor.elements());
    loss[side] = engine.gradients(micros, 1, 3).loss_sum;
  }
  engine.params().set(block, tensor.offset, kept.data(), tensor.elements());
  return (loss[0] - loss[1]) / (2.0 * double(h));
}

TEST_CASE(
    "layers: the gradient of every tensor is the slope of the loss, in its own direction and in another") {
  const data::Row one = row_of({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}, {12});
  const data::Row two = row_of({9, 7, 9, 3, 2, 3, 8, 4, 6, 2}, {4, 6});
  const auto micros = micro_batches({one, two}, 1, kLength);
  for (auto [config, variant] : variants()) {
    config.update(variant.changes.is_null() ? nlohmann::json::object() : variant.changes);
    CAPTURE(config["model_type"].get<std::string>());
    CAPTURE(variant.what);
    exec::EngineOptions o;
    o.shape.sequence_length = kLength;
    o.shape.micros = 2;
    o.dropout = variant.dropout;
    o.seed = 5;
    exec::Engine engine(spec::from_config(config, "a test"), o);
    fill(engine.params(), engine.model());
    engine.gradients(micros, 1, 3);
    std::vector<std::pair<std::pair<int, spec::TensorSpec>, Floats>> gradients;
    for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
      gradients.push_back({{block, tensor}, gradients_of(engine.params(), block, tensor)});
    });
    std::uint32_t number = 0;
    for (const auto& [place, gradient] : gradients) {
      const auto& [block, tensor] = place;
      CAPTURE(tensor.name);
      const double size = std::sqrt(dot(gradient, gradient));
      CHECK(size > 0);
      // The loss is a sum near 60 in float32: a change of 0.2 is seen to 1 part in 1,000 or so.
      const auto h = static_cast<float>(std::min(0.1 / size, 0.02));
      const Floats along = unit(gradient), across = random_direction(gradient.size(), number++);
      CHECK(std::abs(slope(engine, micros, block, tensor, along, h) - size) < 0.02 * size + 2e-3);
      CHECK(std::abs(slope(engine, micros, block, tensor, across, h) - dot(gradient, across)) <
            0.02 * size + 2e-3);
    }
  }
}

}  // namespace
}  // namespace zt::test
