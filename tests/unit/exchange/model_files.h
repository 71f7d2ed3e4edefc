// Tiny models on disk whose values are known.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "exchange/safetensors.h"
#include "spec/model.h"

namespace zt::test {

inline nlohmann::json tiny_llama(bool tied) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 4},
          {"intermediate_size", 6},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"vocab_size", 8},
          {"max_position_embeddings", 16},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", tied}};
}

inline nlohmann::json tiny_gpt2() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", 4},
          {"n_layer", 2},
          {"n_head", 2},
          {"n_positions", 16},
          {"vocab_size", 8},
          {"activation_function", "gelu_new"}};
}

struct Weight {
  exchange::Shape shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

// Every tensor of the model; all values differ, and are exact in bfloat16 neither by accident nor by design.
inline Weights weights_of(const nlohmann::json& config) {
  Weights out;
  float next = 1.f / 3;
  for (const auto& block : spec::from_config(config, "config").blocks) {
    for (const auto& t : block.tensors) {
      Weight w{t.shape, std::vector<float>(std::size_t(t.elements()))};
      for (float& x : w.values) x = next += 0.25f;
      out[t.name] = w;
    }
  }
  return out;
}

// The name that a model without its head is saved with.
inline std::string without_prefix(const std::string& name) {
  for (const std::string prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

inline void write_weights(const std::filesystem::path& path, const Weights& weights,
                          const std::map<std::string, std::string>& metadata = {}) {
  std::vector<exchange::NamedTensor> tensors;
  for (const auto& [name, w] : weights) tensors.push_back({name, Dtype::f32, w.shape});
  exchange::SafetensorsWriter writer(path, tensors, metadata);
  for (const auto& [name, w] : weights) writer.append(name, std::as_bytes(std::span(w.values)));
  writer.finish();
}

}  // namespace zt::test
