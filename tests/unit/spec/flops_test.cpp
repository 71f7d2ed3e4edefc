#include "spec/flops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace zt::spec {
namespace {

ModelSpec llama(int layers, int width, int heads, int kv, int inner, int vocab) {
  return from_config({{"model_type", "llama"},
                      {"num_hidden_layers", layers},
                      {"hidden_size", width},
                      {"num_attention_heads", heads},
                      {"num_key_value_heads", kv},
                      {"intermediate_size", inner},
                      {"vocab_size", vocab}},
                     "config.json");
}

}  // namespace

TEST_CASE("a sequence of GPT-2 124M at T 1024 costs what nanoGPT's notebook says") {
  const ModelSpec spec = from_config({{"model_type", "gpt2"},
                                      {"n_layer", 12},
                                      {"n_embd", 768},
                                      {"n_head", 12},
                                      {"vocab_size", 50257},
                                      {"n_positions", 1024},
                                      {"bias", false}},
                                     "config.json");
  CHECK(spec.parameters() == 124337664);
  CHECK(training_flops_per_token(spec, 1024) * 1024 == 875062886400.0);
  CHECK(forward_flops_per_token(spec, 1024) * 3 == training_flops_per_token(spec, 1024));
}

TEST_CASE("Llama models cost the published FLOPs a token") {
  const ModelSpec b7 = llama(32, 4096, 32, 32, 11008, 32000), b70 = llama(80, 8192, 64, 8, 28672, 32000);
  const ModelSpec l8 = llama(32, 4096, 32, 8, 14336, 128256), l70 = llama(80, 8192, 64, 8, 28672, 128256);
  const struct {
    const ModelSpec& spec;
    int k;
    double giga, digit;  // the published figure is within one unit of its last digit
  } rows[] = {{b7, 4, 46.9, 0.1}, {b7, 32, 92.0, 0.1}, {b7, 128, 246.6, 0.1}, {b70, 4, 446, 1},
              {b70, 32, 672, 1},  {b70, 128, 1445, 1}, {l8, 8, 61.1, 0.1},    {l70, 8, 487.8, 0.1}};
  for (const auto& row : rows) {
    CAPTURE(row.giga);
    CHECK(std::abs(training_flops_per_token(row.spec, row.k * 1024) / 1e9 - row.giga) <= row.digit);
  }
}

}  // namespace zt::spec
