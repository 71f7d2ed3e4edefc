#include "shard/param_store.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support/tiny_models.h"

namespace zt::shard {
namespace {

spec::ModelSpec model_of(const std::string& kind, int width = 18) {
  if (kind == "gpt2") {
    return spec::from_config({{"model_type", "gpt2"},
                              {"n_embd", width},
                              {"n_head", 2},
                              {"n_layer", 3},
                              {"n_positions", 8},
                              {"vocab_size", 51}},
                             kind);
  }
  return spec::from_config({{"model_type", kind},
                            {"hidden_size", width},
                            {"num_hidden_layers", 3},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 2},
                            {"head_dim", 4},
                            {"intermediate_size", 27},
                            {"vocab_size", 51},
                            {"max_position_embeddings", 64}},
                           kind);
}

TEST_CASE("store: values come back, exactly in float32, and from the master copy in bfloat16 training") {
  const spec::ModelSpec m = model_of("llama");
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const bool training : {true, false}) {
      CAPTURE(name(dtype));
      CAPTURE(training);
      ParamStore store(m, dtype, training);
      const std::vector<float> values = {1.00390625f, -2.001f, 3e-5f};
      store.set(2, 5, values.data(), 3);
      std::vector<float> back(3);
      store.get(2, 5, back.data(), 3);
      for (std::size_t i = 0; i < 3; ++i) {
        const bool exact = dtype == Dtype::f32 || training;
        CHECK(back[i] == (exact ? values[i] : float(bf16(values[i]))));
        if (dtype == Dtype::bf16)
          CHECK(static_cast<bf16*>(store.weights(2))[5 + i].bits == bf16(values[i]).bits);
      }
    }
  }
}

TEST_CASE("store: nothing of one block, kind or neighbour overlaps another") {
  const spec::ModelSpec m = model_of("gpt2");
  ParamStore store(m, Dtype::bf16, true);
  float mark = 1;
  const auto each = [&](const auto& visit) {
    for (int b = 0; b < int(m.blocks.size()); ++b)
      for (float* const part :
           {store.grads(b), store.master(b), store.first_moment(b), store.second_moment(b)})
        visit(part, store.elements(b));
  };
  for (int b = 0; b < int(m.blocks.size()); ++b)
    std::fill_n(static_cast<bf16*>(store.weights(b)), store.elements(b), bf16(-7.f));
  each([&](float* part, std::int64_t count) { std::fill_n(part, count, mark++); });
  mark = 1;
  each([&](const float* part, std::int64_t count) {
    CHECK(std::count(part, part + count, mark++) == count);
    CHECK(reinterpret_cast<std::uintptr_t>(part) % 64 == 0);
  });
  for (int b = 0; b < int(m.blocks.size()); ++b) {
    const bf16* const w = static_cast<bf16*>(store.weights(b));
    CHECK(std::count_if(w, w + store.elements(b), [](bf16 x) { return float(x) == -7.f; }) ==
          store.elements(b));
  }
  store.clear_grads();
  for (int b = 0; b < int(m.blocks.size()); ++b)
    CHECK(std::count(store.grads(b), store.grads(b) + store.elements(b), 0.f) == store.elements(b));
}

// Every rank of every split together: each trained element is updated by its owner (or by all), and what one rank
// sets arrives where its weights, master copy and gradient of that element lie.
TEST_CASE("store: over ranks and stages, each element has one owner, and its values come back from there") {
  for (const std::string kind : {"gpt2", "qwen3"})
    for (const int ranks : {1, 2, 3, 5})
      for (const int stage : {0, 1, 2, 3}) {
        spec::ModelSpec m = model_of(kind);
        m.blocks[1].tensors[2].trainable = false;
        for (spec::TensorSpec& tensor : m.blocks[0].tensors) tensor.trainable = false;
        const auto split = plan::Partition::of_stage(stage, ranks, schedule::ReduceEvery::micro);
        for (int b = 0; b < int(m.blocks.size()); ++b) {
          std::vector<int> owners(std::size_t(m.blocks[std::size_t(b)].elements));
          for (int rank = 0; rank < ranks; ++rank) {
            ParamStore store(m, Dtype::bf16, true, {split, rank});
            const plan::Range mine = store.owned(b);
            std::vector<float> values(std::size_t(mine.count)), back(values.size());
            for (std::size_t i = 0; i < values.size(); ++i) {
              ++owners[std::size_t(mine.first) + i];
              values[i] = float(mine.first + std::int64_t(i)) * 1.001f;
            }
            store.set(b, mine.first, values.data(), mine.count);
            store.get(b, mine.first, back.data(), mine.count);
            std::int64_t trained = 0;
            for (const spec::TensorSpec& tensor : m.blocks[std::size_t(b)].tensors) {
              const plan::Range cut = overlap(mine, {tensor.offset, tensor.elements()});
              trained += tensor.trainable ? cut.count : 0;
              for (std::int64_t e = cut.first; e < cut.end(); ++e) {
                const float value = values[std::size_t(e - mine.first)];
                CHECK(back[std::size_t(e - mine.first)] == (tensor.trainable ? value : float(bf16(value))));
              }
            }
            std::int64_t summed = 0;
            for (const plan::Range& r : store.owned_gradient(b)) summed += r.count;
            CHECK(summed == trained);
            if (!split.update_whole) {
              std::int64_t updated = 0;
              for (const plan::Part& part : store.parts(b)) updated += part.count;
              CHECK(updated == trained);
            }
          }
          CHECK(std::count(owners.begin(), owners.end(), 1) == std::int64_t(owners.size()));
        }
      }
}

struct Moments {
  double mean, deviation, kurtosis;
};
Moments moments(const std::vector<float>& x) {
  const auto n = double(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double second = 0, fourth = 0;
  for (const float v : x) {
    second += (v - mean) * (v - mean);
    fourth += std::pow(v - mean, 4);
  }
  second /= n;
  return {mean, std::sqrt(second), fourth / n / (second * second)};
}

TEST_CASE("initialise: matrices are normal with the stated deviation, norms one, biases zero") {
  // Radford et al. 2019, section 2.3: 0.02, and 1/sqrt(2 L) of it into the residual stream.
  for (const std::string kind : {"gpt2", "llama"}) {
    const spec::ModelSpec m = model_of(kind, 180);
    ParamStore store(m, Dtype::f32, true);
    initialise(store, m, 42);
    test::for_each_tensor(m, [&](int block, const spec::TensorSpec& tensor) {
      CAPTURE(tensor.name);
      const auto values = test::weights_of(store, block, tensor);
      if (tensor.shape.size() == 1) {
        const float expected = tensor.role.ends_with("bias") ? 0.f : 1.f;
        CHECK(std::count(values.begin(), values.end(), expected) == std::int64_t(values.size()));
        return;
      }
      const bool residual = tensor.role.find("c_proj") != std::string::npos ||
                            tensor.role == "o_proj.weight" || tensor.role == "down_proj.weight";
      const double expected = residual ? 0.02 / std::sqrt(6.0) : 0.02;
      const double n = double(values.size());
      const Moments got = moments(values);
      CHECK(std::abs(got.mean) < 5 * expected / std::sqrt(n));
      CHECK(std::abs(got.deviation / expected - 1) < 5 / std::sqrt(2 * n));
      CHECK(std::abs(got.kurtosis - 3) < 5 * std::sqrt(24 / n));
    });
  }
}

TEST_CASE("initialise: weights are a function of the seed, tensor and element alone") {
  const spec::ModelSpec m = model_of("llama");
  ParamStore a(m, Dtype::f32, true), b(m, Dtype::bf16, true), c(m, Dtype::f32, false);
  initialise(a, m, 42);
  initialise(b, m, 42);
  initialise(c, m, 43);
  CHECK(test::all_weights(a, m) == test::all_weights(b, m));
  CHECK(test::all_weights(a, m) != test::all_weights(c, m));
  // No two tensors start alike.
  std::vector<std::vector<float>> starts;
  test::for_each_tensor(m, [&](int block, const spec::TensorSpec& tensor) {
    if (tensor.shape.size() == 1) return;
    auto values = test::weights_of(a, block, tensor);
    const float scale = std::abs(values[0]);
    for (float& v : values) v /= scale;
    values.resize(4);
    for (const auto& other : starts) CHECK(std::abs(other[1] - values[1]) > 1e-6);
    starts.push_back(values);
  });
}

}  // namespace
}  // namespace zt::shard
