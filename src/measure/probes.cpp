#include "measure/probes.h"

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace zt::measure {

using spec::Family;

// From models that fit a core's cache to one of GPT-2 124M's width, each with enough layers that its weights don't stay
// in a cache from one use to the next when a real one's would not. What lies between is interpolated.
std::vector<Probe> probes(bool quick) {
  constexpr Family gpt = Family::gpt2, llama = Family::llama;
  if (quick) return {{gpt, 2, 64, 4, 256, 256, 64, 4}, {llama, 2, 128, 4, 344, 256, 64, 2}};
  return {
      {gpt, 4, 64, 4, 256, 256, 64, 4},          // 256 tokens
      {gpt, 4, 64, 4, 256, 256, 256, 8},         // 2,048
      {llama, 6, 128, 4, 344, 256, 128, 1},      // 128
      {llama, 6, 128, 4, 344, 256, 128, 8},      // 1,024
      {gpt, 6, 256, 8, 1024, 2048, 256, 1},      // 256
      {gpt, 6, 256, 8, 1024, 2048, 256, 8},      // 2,048
      {llama, 6, 256, 4, 688, 4096, 512, 1},     // 512
      {llama, 4, 512, 8, 1376, 8192, 64, 1},     // 64
      {llama, 4, 512, 8, 1376, 8192, 256, 4},    // 1,024
      {llama, 3, 256, 4, 688, 256, 1024, 1},     // 1,024 in one document
      {gpt, 3, 768, 12, 3072, 8192, 64, 1},      // 64
      {gpt, 3, 768, 12, 3072, 8192, 256, 1},     // 256
      {gpt, 2, 768, 12, 3072, 8192, 1024, 1},    // 1,024
      {llama, 1, 1024, 8, 2816, 8192, 1024, 1},  // 1,024
      {gpt, 1, 256, 4, 1024, 50257, 320, 1},     // 320: a chunk of logits of that vocabulary
  };
}

spec::ModelSpec model_of(const Probe& p) {
  nlohmann::json config;
  if (p.family == Family::gpt2)
    config = {{"model_type", "gpt2"}, {"vocab_size", p.vocab}, {"n_positions", p.length}, {"n_embd", p.width},
              {"n_layer", p.layers},  {"n_head", p.heads},     {"n_inner", p.inner}};
  else
    config = {{"model_type", "llama"},          {"vocab_size", p.vocab},
              {"hidden_size", p.width},         {"num_hidden_layers", p.layers},
              {"num_attention_heads", p.heads}, {"num_key_value_heads", p.heads / 2},
              {"intermediate_size", p.inner},   {"max_position_embeddings", p.length},
              {"tie_word_embeddings", true}};
  return spec::from_config(config, "a probe");
}

exec::HostBatch random_batch(const Probe& p) {
  exec::HostBatch batch;
  batch.bounds.push_back(0);
  const RandomStream random;
  const auto token = [&](std::int64_t at) {
    return static_cast<std::int32_t>(random.u64(static_cast<std::uint64_t>(at)) %
                                     static_cast<std::uint64_t>(p.vocab));
  };
  for (std::int64_t i = 0; i < p.tokens(); ++i) {
    batch.tokens.push_back(token(i));
    batch.targets.push_back(token(i + 1));
    batch.positions.push_back(static_cast<std::int32_t>(i % p.length));
    if ((i + 1) % p.length == 0) batch.bounds.push_back(static_cast<std::int32_t>(i + 1));
  }
  return batch;
}

}  // namespace zt::measure
