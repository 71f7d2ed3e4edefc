#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "spec/blocks.h"
#include "spec/config_reader.h"
#include "spec/model.h"
#include "spec/refused.h"
#include "spec/rope_config.h"

namespace zt::spec {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostLayers = 4096, kMostHeads = 1 << 16, kMostHeadSize = 1 << 12;
constexpr std::int64_t kMostWidth = 1 << 24, kMostVocab = 1 << 28, kMostPositions = std::int64_t{1} << 30;
// Below the smallest eps, fp32 rounds it away beside any mean square worth dividing by.
constexpr double kSmallestEps = 1e-12;

// What Hugging Face's configuration classes and modelling code fix for each type.
struct Type {
  const char* name;
  const char* architecture;
  Family family;
  int max_positions;  // default
  double norm_eps;    // default
  bool qkv_bias;      // always
  bool qk_norm;       // always
  bool attention_bias_key, mlp_bias_key;
};

constexpr Type kTypes[] = {
    {"gpt2", "GPT2LMHeadModel", Family::gpt2, 1024, 1e-5, false, false, false, false},
    {"llama", "LlamaForCausalLM", Family::llama, 2048, 1e-6, false, false, true, true},
    {"mistral", "MistralForCausalLM", Family::llama, 131072, 1e-6, false, false, false, false},
    {"qwen2", "Qwen2ForCausalLM", Family::llama, 32768, 1e-6, true, false, false, false},
    {"qwen3", "Qwen3ForCausalLM", Family::llama, 32768, 1e-6, false, true, true, false},
};

std::string supported_types() {
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.push_back(type.name);
  return join(names, ", ");
}

const Type* type_named(const std::string& word) {
  for (const Type& type : kTypes)
    if (word == type.name) return &type;
  return nullptr;
}

std::vector<std::string> read_architectures(ConfigReader& reader) {
  const json* list = reader.find("architectures");
  if (list == nullptr) return {};
  std::vector<std::string> names;
  if (list->is_array() && list->size() <= 16)
    for (const json& item : *list)
      if (item.is_string()) names.push_back(item.get<std::string>());
  if (names.empty() && !(list->is_array() && list->empty()))
    reader.fault("architectures", cat("must be a short list of names, is ", shown(*list)));
  return names;
}

// GPT-2 files of 2019 have neither model_type nor architectures.
bool looks_like_old_gpt2(const json& config) {
  return config.contains("n_embd") && config.contains("n_layer") && config.contains("n_head");
}

const Type* read_type(const json& config, const std::vector<std::string>& architectures,
                      ConfigReader& reader) {
  const bool has_type = reader.has("model_type");
  if (const std::optional<std::string> word = reader.word("model_type")) {
    const Type* type = type_named(*word);
    if (type == nullptr)
      reader.fault("model_type",
                   cat(shown(json(*word)), " is not supported; these are: ", supported_types()));
    return type;
  }
  if (has_type) return nullptr;
  for (const Type& type : kTypes)
    if (std::count(architectures.begin(), architectures.end(), type.architecture) > 0) return &type;
  if (architectures.empty() && looks_like_old_gpt2(config)) return &kTypes[0];
  reader.fault("model_type", cat("is missing; these are supported: ", supported_types()));
  return nullptr;
}

void check_architectures(ConfigReader& reader, const std::vector<std::string>& architectures,
                         const Type& type) {
  for (const std::string& name : architectures)
    if (name != type.architecture && !(type.family == Family::gpt2 && name == "GPT2Model"))
      reader.fault("architectures", cat("names ", shown(json(name)), ", which is not supported; ", type.name,
                                        " models here are ", type.architecture));
}

void check_activation(ConfigReader& reader, const std::string& key, const std::vector<std::string>& allowed) {
  const std::optional<std::string> word = reader.word(key);
  if (!word || std::count(allowed.begin(), allowed.end(), *word) > 0) return;
  const std::string exact = *word == "gelu" ? " (the exact form with erf)" : "";
  reader.fault(key,
               cat(shown(json(*word)), exact, " is not supported; supported here: ", join(allowed, ", ")));
}

std::optional<int> token_in_vocab(const json& value, int vocab) {
  if (!value.is_number_integer() || value < 0 || value >= vocab) return std::nullopt;
  return value.get<int>();
}

std::optional<int> read_token(ConfigReader& reader, const std::string& key, int vocab) {
  const json* value = reader.find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return token_in_vocab(*value, vocab);
  reader.fault(key, cat("must be a token id, is ", shown(*value)));
  return std::nullopt;
}

std::vector<int> read_tokens(ConfigReader& reader, const std::string& key, int vocab) {
  const json* value = reader.find(key);
  std::vector<int> tokens;
  if (value == nullptr) return tokens;
  if (!value->is_array()) {
    if (const auto token = read_token(reader, key, vocab)) tokens.push_back(*token);
    return tokens;
  }
  for (const json& item : *value) {
    if (!item.is_number_integer()) {
      reader.fault(key, cat("must hold token ids, holds ", shown(item)));
      return {};
    }
    if (const auto token = token_in_vocab(item, vocab)) tokens.push_back(*token);
  }
  return tokens;
}

void read_tokens_and_scales(ConfigReader& reader, ModelSpec& spec) {
  spec.bos_token = read_token(reader, "bos_token_id", spec.vocab);
  spec.eos_tokens = read_tokens(reader, "eos_token_id", spec.vocab);
  spec.pad_token = read_token(reader, "pad_token_id", spec.vocab);
  spec.init_std = float(reader.number("initializer_range", 0.0, 1.0).value_or(0.02));
  if (spec.head_size > 0) spec.attention_scale = float(1.0 / std::sqrt(double(spec.head_size)));
}

void need_multiple(Problems& problems, const std::string& what, int value, const std::string& of,
                   int divisor) {
  if (value > 0 && divisor > 0 && value % divisor != 0)
    problems.add(cat(what, " (", value, ") must be a multiple of ", of, " (", divisor, ")"));
}

// Hugging Face takes the common names for GPT-2 too.
void read_gpt2(ConfigReader& reader, const Type& type, ModelSpec& spec, Problems& problems) {
  spec.hidden = reader.size({"n_embd", "hidden_size"}, kMostWidth);
  spec.layers = reader.size({"n_layer", "num_hidden_layers"}, kMostLayers);
  spec.heads = spec.kv_heads = reader.size({"n_head", "num_attention_heads"}, kMostHeads);
  spec.vocab = reader.size({"vocab_size"}, kMostVocab);
  const bool only_n_ctx = !reader.has("n_positions") && reader.has("n_ctx");
  if (only_n_ctx)
    spec.max_positions = reader.size({"n_ctx"}, kMostPositions);
  else
    spec.max_positions = reader.size({"n_positions", "max_position_embeddings"}, kMostPositions);
  need_multiple(problems, "n_embd", spec.hidden, "n_head", spec.heads);
  if (spec.heads > 0) spec.head_size = spec.hidden / spec.heads;
  if (spec.head_size > kMostHeadSize)
    problems.add(cat("n_embd / n_head is ", spec.head_size, "; the most is ", kMostHeadSize));
  spec.intermediate = int(reader.integer("n_inner", 1, kMostWidth * 4).value_or(4 * spec.hidden));
  spec.norm_eps = float(reader.number("layer_norm_epsilon", kSmallestEps, 1.0).value_or(type.norm_eps));
  spec.gpt2_bias = reader.flag("bias").value_or(true);
  spec.tied = reader.flag("tie_word_embeddings").value_or(true);
  check_activation(reader, "activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  read_tokens_and_scales(reader, spec);
  if (!reader.flag("scale_attn_weights").value_or(true)) spec.attention_scale = 1.f;
  spec.windows.assign(std::size_t(spec.layers), 0);
}

// A flag that this type's code does not have: Hugging Face would ignore it, but whoever wrote `true` meant
// it.
bool read_bias(ConfigReader& reader, const Type& type, const std::string& key, bool has_key) {
  const bool bias = reader.flag(key).value_or(false);
  if (bias && !has_key) reader.fault(key, cat("true is not supported for model_type ", type.name));
  return bias && has_key;
}

void read_heads(ConfigReader& reader, const Type& type, ModelSpec& spec, Problems& problems) {
  spec.heads = reader.size({"num_attention_heads"}, kMostHeads);
  // Other types than llama have a default (8 or 32) that is seldom meant, so the key must be there; null
  // means as many as there are query heads.
  const std::string type_name = type.name;
  if (type_name != "llama" && !reader.written("num_key_value_heads"))
    reader.fault("num_key_value_heads", "is missing");
  spec.kv_heads = int(reader.integer("num_key_value_heads", 1, kMostHeads).value_or(spec.heads));
  need_multiple(problems, "num_attention_heads", spec.heads, "num_key_value_heads", spec.kv_heads);
  if (reader.has("head_dim") || type_name == "qwen3") {
    spec.head_size = reader.size({"head_dim"}, kMostHeadSize);
  } else {
    need_multiple(problems, "hidden_size", spec.hidden, "num_attention_heads", spec.heads);
    if (spec.heads > 0) spec.head_size = spec.hidden / spec.heads;
    if (spec.head_size > kMostHeadSize)
      problems.add(
          cat("hidden_size / num_attention_heads is ", spec.head_size, "; the most is ", kMostHeadSize));
  }
  if (spec.head_size % 2 != 0)
    problems.add(cat("the head size (", spec.head_size, ") must be even for rotary embedding"));
}

// One word for each layer: transformers' layer_types, or what the older keys mean.
std::vector<bool> read_sliding_layers(ConfigReader& reader, const ModelSpec& spec) {
  std::vector<bool> sliding(std::size_t(spec.layers), false);
  const std::int64_t first = reader.integer("max_window_layers", 0, kMostPositions).value_or(28);
  const json* types = reader.find("layer_types");
  if (types == nullptr) {
    const bool mistral = spec.model_type == "mistral";
    for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = mistral || std::int64_t(i) >= first;
    return sliding;
  }
  if (!types->is_array() || types->size() != sliding.size()) {
    reader.fault("layer_types", cat("must list one word for each of the ", spec.layers, " layers"));
    return sliding;
  }
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    const json& type = (*types)[i];
    sliding[i] = type == json("sliding_attention");
    if (sliding[i] || type == json("full_attention")) continue;
    reader.fault(
        "layer_types",
        cat("holds ", shown(type), ", which is not supported; these are: full_attention, sliding_attention"));
    return sliding;
  }
  return sliding;
}

// Mistral: every layer, unless sliding_window is null (absent means 4096 to Hugging Face, but Mistral's own
// files always write it). Qwen: only with use_sliding_window. Llama has no window.
void read_windows(ConfigReader& reader, ModelSpec& spec) {
  spec.windows.assign(std::size_t(spec.layers), 0);
  const bool llama = spec.model_type == "llama", mistral = spec.model_type == "mistral";
  const std::int64_t absent = llama || reader.written("sliding_window") ? 0 : 4096;
  const int window = int(reader.integer("sliding_window", 1, kMostPositions).value_or(absent));
  const bool use = reader.flag("use_sliding_window").value_or(mistral) && !llama && window > 0;
  const std::vector<bool> sliding = read_sliding_layers(reader, spec);
  if (!use && reader.has("layer_types") && std::count(sliding.begin(), sliding.end(), true) > 0)
    reader.fault("layer_types", "asks for sliding_attention, but no sliding window is in use");
  for (std::size_t i = 0; i < sliding.size(); ++i) spec.windows[i] = use && sliding[i] ? window : 0;
}

void read_llama(ConfigReader& reader, const Type& type, ModelSpec& spec, Problems& problems) {
  spec.hidden = reader.size({"hidden_size"}, kMostWidth);
  spec.layers = reader.size({"num_hidden_layers"}, kMostLayers);
  spec.intermediate = reader.size({"intermediate_size"}, kMostWidth * 4);
  spec.vocab = reader.size({"vocab_size"}, kMostVocab);
  read_heads(reader, type, spec, problems);
  spec.max_positions =
      int(reader.integer("max_position_embeddings", 1, kMostPositions).value_or(type.max_positions));
  spec.norm_eps = float(reader.number("rms_norm_eps", kSmallestEps, 1.0).value_or(type.norm_eps));
  spec.tied = reader.flag("tie_word_embeddings").value_or(false);
  const bool attention_bias = read_bias(reader, type, "attention_bias", type.attention_bias_key);
  spec.qkv_bias = type.qkv_bias || attention_bias;
  spec.o_bias = attention_bias;
  spec.mlp_bias = read_bias(reader, type, "mlp_bias", type.mlp_bias_key);
  spec.qk_norm = type.qk_norm;
  check_activation(reader, "hidden_act", {"silu"});
  spec.rope = read_rope(reader, spec.max_positions, spec.head_size, problems);
  read_windows(reader, spec);
  read_tokens_and_scales(reader, spec);
}

}  // namespace

ModelSpec from_config(const json& config, const std::string& where) {
  if (!config.is_object())
    throw Error(Blame::model, cat(where, " must be a JSON object, is ", shown(config)));
  Problems problems;
  ConfigReader reader(config, "", problems);
  ModelSpec spec;
  const std::vector<std::string> architectures = read_architectures(reader);
  if (const Type* type = read_type(config, architectures, reader)) {
    spec.family = type->family;
    spec.model_type = type->name;
    check_architectures(reader, architectures, *type);
    if (type->family == Family::gpt2)
      read_gpt2(reader, *type, spec, problems);
    else
      read_llama(reader, *type, spec, problems);
    reader.report_misspellings();
  }
  report_refused_features(config, problems);
  if (problems.empty()) build_blocks(spec, problems);
  problems.throw_if_any(Blame::model, cat(where, " does not describe a model that can be used here:"),
                        cat("supported are the model types ", supported_types(),
                            " as transformers defines them, without the features named above"));
  return spec;
}

}  // namespace zt::spec
