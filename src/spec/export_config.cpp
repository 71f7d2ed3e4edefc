#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "spec/model.h"

namespace zt::spec {
namespace {

using nlohmann::json;

// Deeper values are left out: no config has them, and copying one recurses.
constexpr int kDeepest = 16;

bool shallow(const json& value, int depth = 0) {
  if (!value.is_structured()) return true;
  if (depth == kDeepest) return false;
  return std::all_of(value.begin(), value.end(), [&](const json& x) { return shallow(x, depth + 1); });
}

// The shortest decimal that is this float again: 1e-05, not 9.99999974737875e-06.
json decimal(float x) { return json::parse(fmt::format("{}", x)); }

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json tokens(const std::vector<int>& ids) {
  if (ids.empty()) return json();
  return ids.size() == 1 ? json(ids.front()) : json(ids);
}

void write_gpt2(const ModelSpec& s, json& out) {
  // One name for each size: transformers lets the common names win over GPT-2's own.
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"})
    out.erase(key);
  out["n_embd"] = s.hidden;
  out["n_layer"] = s.layers;
  out["n_head"] = s.heads;
  out["n_inner"] = s.intermediate == 4 * s.hidden ? json() : json(s.intermediate);
  out["n_positions"] = s.max_positions;
  out["layer_norm_epsilon"] = decimal(s.norm_eps);
  out["scale_attn_weights"] = s.attention_scale != 1.f || s.head_size == 1;
  if (!out.contains("activation_function")) out["activation_function"] = "gelu_new";
  if (!s.gpt2_bias) out["bias"] = false;
}

json rope_scaling(const Rope& rope) {
  if (rope.scaling == Rope::Scaling::none) return json();
  json out = {{"rope_type", name(rope.scaling)}, {"factor", rope.factor}};
  if (rope.scaling == Rope::Scaling::llama3) {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.scaling == Rope::Scaling::yarn) {
    out["beta_fast"] = rope.beta_fast;
    out["beta_slow"] = rope.beta_slow;
    if (rope.attention_factor) out["attention_factor"] = *rope.attention_factor;
    if (rope.mscale) out["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) out["mscale_all_dim"] = *rope.mscale_all_dim;
    if (!rope.truncate) out["truncate"] = false;
  }
  if (rope.scaling == Rope::Scaling::llama3 || rope.scaling == Rope::Scaling::yarn)
    out["original_max_position_embeddings"] = rope.original_positions;
  return out;
}

void write_windows(const ModelSpec& s, json& out) {
  const int window = s.windows.empty() ? 0 : *std::max_element(s.windows.begin(), s.windows.end());
  out["sliding_window"] = window > 0 ? json(window) : json();
  if (s.model_type == "mistral") return;
  out["use_sliding_window"] = window > 0;
  json types = json::array();
  for (const int w : s.windows) types.push_back(w > 0 ? "sliding_attention" : "full_attention");
  out["layer_types"] = types;
  // For versions of transformers that do not read layer_types: right when the windowed layers come last.
  out["max_window_layers"] = std::count(s.windows.begin(), s.windows.end(), 0);
}

void write_llama(const ModelSpec& s, json& out) {
  out["hidden_size"] = s.hidden;
  out["num_hidden_layers"] = s.layers;
  out["num_attention_heads"] = s.heads;
  out["num_key_value_heads"] = s.kv_heads;
  out["head_dim"] = s.head_size;
  out["intermediate_size"] = s.intermediate;
  out["max_position_embeddings"] = s.max_positions;
  out["rms_norm_eps"] = decimal(s.norm_eps);
  out["hidden_act"] = "silu";
  // The older spelling is read by transformers 4 and 5 alike.
  out.erase("rope_parameters");
  out["rope_theta"] = s.rope.theta;
  out["rope_scaling"] = rope_scaling(s.rope);
  if (s.model_type == "llama" || s.model_type == "qwen3") out["attention_bias"] = s.o_bias;
  if (s.model_type == "llama") out["mlp_bias"] = s.mlp_bias;
  if (s.model_type != "llama") write_windows(s, out);
}

const char* architecture(const std::string& model_type) {
  if (model_type == "gpt2") return "GPT2LMHeadModel";
  if (model_type == "mistral") return "MistralForCausalLM";
  if (model_type == "qwen2") return "Qwen2ForCausalLM";
  if (model_type == "qwen3") return "Qwen3ForCausalLM";
  return "LlamaForCausalLM";
}

}  // namespace

json to_config(const ModelSpec& spec, const json& original) {
  json out = json::object();
  if (original.is_object())
    for (const auto& [key, value] : original.items())
      if (shallow(value)) out[key] = value;
  out["model_type"] = spec.model_type;
  out["architectures"] = json::array({architecture(spec.model_type)});
  out["vocab_size"] = spec.vocab;
  out["initializer_range"] = decimal(spec.init_std);
  out["tie_word_embeddings"] = spec.tied;
  // null says "none"; without it transformers would put its own defaults.
  out["bos_token_id"] = or_null(spec.bos_token);
  out["eos_token_id"] = tokens(spec.eos_tokens);
  out["pad_token_id"] = or_null(spec.pad_token);
  if (spec.family == Family::gpt2)
    write_gpt2(spec, out);
  else
    write_llama(spec, out);
  return out;
}

}  // namespace zt::spec
