// Frequencies against numbers printed by others.
#include "spec/rope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/paths.h"

namespace zt::spec {
namespace {

using nlohmann::json;

ModelSpec model(int head_size, double theta, int positions, const json& scaling) {
  return from_config({{"model_type", "llama"},
                      {"num_hidden_layers", 1},
                      {"hidden_size", 4096},
                      {"num_attention_heads", 32},
                      {"intermediate_size", 8},
                      {"vocab_size", 8},
                      {"head_dim", head_size},
                      {"rope_theta", theta},
                      {"max_position_embeddings", positions},
                      {"rope_scaling", scaling}},
                     "config.json");
}

json llama3(double factor, int original) {
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", original}};
}

}  // namespace

TEST_CASE("inverse frequencies are the ones transformers prints in its tests") {
  const auto path = test::test_data("numbers/rope_inv_freq.json");
  if (!path) return;
  const json reference = json::parse(test::read_file(*path));
  for (const char* type : {"default", "llama3", "dynamic", "yarn"}) {
    CAPTURE(std::string(type));
    const json& row = reference[type];
    const ModelSpec spec = model(128, 1e4, 2048, row.value("rope_scaling", json()));
    const std::vector<double> w = inverse_frequencies(spec, row.value("seq_len", 0));
    REQUIRE(w.size() == row["inv_freq"].size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      CAPTURE(i);
      // Five printed digits: half a unit of the last is at most 5e-5 of the number.
      CHECK(std::abs(w[i] / row["inv_freq"][i].get<double>() - 1.0) < 5e-5);
    }
  }
}

TEST_CASE("linear scaling divides every frequency, under both spellings of the key") {
  const std::vector<double> plain = inverse_frequencies(model(64, 1e4, 2048, nullptr), 2048);
  for (const char* key : {"type", "rope_type"}) {
    const ModelSpec spec = model(64, 1e4, 2048, {{key, "linear"}, {"factor", 8.0}});
    const std::vector<double> w = inverse_frequencies(spec, 2048);
    for (std::size_t i = 0; i < w.size(); ++i) CHECK(w[i] == plain[i] / 8.0);
  }
}

TEST_CASE("dynamic scaling changes nothing up to the model's context") {
  const std::vector<double> plain = inverse_frequencies(model(64, 1e4, 2048, nullptr), 2048);
  const ModelSpec spec = model(64, 1e4, 2048, {{"type", "dynamic"}, {"factor", 4.0}});
  CHECK(inverse_frequencies(spec, 1) == plain);
  CHECK(inverse_frequencies(spec, 2048) == plain);
  CHECK(inverse_frequencies(spec, 2049) != plain);
}

TEST_CASE("llama3 scaling at head size 8 gives the four known numbers") {
  const std::vector<double> w = inverse_frequencies(model(8, 1e4, 131072, llama3(8.0, 8192)), 1);
  const double expected[] = {1.0, 0.1, 0.01, 2.13607544e-4};
  REQUIRE(w.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == doctest::Approx(expected[i]).epsilon(1e-8));
}

TEST_CASE("llama3 scaling keeps, blends and divides as many frequencies as Llama 3.1 and 3.2 do") {
  const struct {
    int head_size;
    double factor;
    int kept, blended, divided;
  } rows[] = {{128, 8.0, 29, 6, 29}, {64, 32.0, 15, 3, 14}};
  for (const auto& row : rows) {
    CAPTURE(row.head_size);
    const std::vector<double> plain = inverse_frequencies(model(row.head_size, 5e5, 131072, nullptr), 1);
    const std::vector<double> w =
        inverse_frequencies(model(row.head_size, 5e5, 131072, llama3(row.factor, 8192)), 1);
    int kept = 0, divided = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      kept += w[i] == plain[i];
      divided += w[i] == plain[i] / row.factor;
    }
    CHECK(kept == row.kept);
    CHECK(divided == row.divided);
    CHECK(int(w.size()) - kept - divided == row.blended);
  }
}

TEST_CASE("the parameters of transformers 5, nested with theta, mean the same") {
  json config = {{"model_type", "llama"},         {"num_hidden_layers", 1}, {"hidden_size", 64},
                 {"num_attention_heads", 4},      {"intermediate_size", 8}, {"vocab_size", 8},
                 {"max_position_embeddings", 256}};
  json old = config;
  old["rope_theta"] = 5e5;
  old["rope_scaling"] = llama3(8.0, 64);
  config["rope_parameters"] = llama3(8.0, 64);
  config["rope_parameters"]["rope_theta"] = 5e5;
  CHECK(from_config(config, "new") == from_config(old, "old"));
}

TEST_CASE("yarn scales cos and sin as its config asks") {
  const auto factor = [](const json& keys) {
    json scaling = {{"rope_type", "yarn"}, {"factor", 40.0}};
    scaling.update(keys);
    return rope_attention_factor(model(128, 1e4, 2048, scaling));
  };
  CHECK(factor(json::object()) == doctest::Approx(0.1 * std::log(40.0) + 1.0));
  CHECK(factor({{"attention_factor", 1.25}}) == 1.25);
  CHECK(factor({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}) == 1.0);  // DeepSeek-V3
  CHECK(factor({{"mscale", 0.707}, {"mscale_all_dim", 1.0}}) ==
        doctest::Approx((0.0707 * std::log(40.0) + 1.0) / (0.1 * std::log(40.0) + 1.0)));
  CHECK(rope_attention_factor(model(128, 1e4, 2048, llama3(8.0, 1024))) == 1.0);
}

TEST_CASE("yarn reads the original context and falls back on the model's") {
  const json base = {{"rope_type", "yarn"}, {"factor", 4.0}};
  json with = base;
  with["original_max_position_embeddings"] = 512;
  CHECK(inverse_frequencies(model(64, 1e4, 2048, with), 1) ==
        inverse_frequencies(model(64, 1e4, 512, base), 1));
  CHECK(inverse_frequencies(model(64, 1e4, 2048, with), 1) !=
        inverse_frequencies(model(64, 1e4, 2048, base), 1));
}

TEST_CASE("no scaling gives anything but positive finite frequencies, whatever the sizes") {
  for (const char* type : {"default", "linear", "dynamic", "llama3", "yarn"})
    for (int head_size : {4, 6, 4096})
      for (double theta : {1.1, 1e4, 1e15})
        for (int original : {1, 5, 1 << 30}) {
          json scaling = llama3(1e6, original);
          scaling["rope_type"] = type;
          CAPTURE(scaling.dump());
          CAPTURE(head_size);
          CAPTURE(theta);
          for (const double w : inverse_frequencies(model(head_size, theta, 64, scaling), 1 << 20)) {
            CHECK(std::isfinite(w));
            CHECK(w > 0.0);
          }
        }
}

}  // namespace zt::spec
