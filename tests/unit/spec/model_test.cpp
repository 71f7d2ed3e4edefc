// What config files become: counts, names, layout, and how bad ones are refused.
#include "spec/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "support/paths.h"

namespace zt::spec {
namespace {

using nlohmann::json;

json gpt2(int layers, int width, int heads) {
  return {{"model_type", "gpt2"}, {"n_layer", layers},   {"n_embd", width},
          {"n_head", heads},      {"vocab_size", 50257}, {"n_positions", 1024}};
}

json llama(int layers, int width, int heads, int kv, int inner, int vocab, bool tied = false) {
  return {{"model_type", "llama"},        {"num_hidden_layers", layers}, {"hidden_size", width},
          {"num_attention_heads", heads}, {"num_key_value_heads", kv},   {"intermediate_size", inner},
          {"vocab_size", vocab},          {"tie_word_embeddings", tied}, {"max_position_embeddings", 4096}};
}

json tiny(const std::string& type) {
  json config = llama(3, 32, 4, 2, 48, 64);
  config["model_type"] = type;
  if (type == "qwen3") config["head_dim"] = 8;
  if (type == "gpt2") config = gpt2(3, 32, 4);
  return config;
}

json held(const std::filesystem::path& path) { return json::parse(test::read_file(path)); }

// What from_config says when it refuses, or "accepted".
std::string refusal(const json& config) {
  try {
    from_config(config, "config.json");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    return e.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("parameter counts are the published ones") {
  json without_biases = gpt2(12, 768, 12);
  without_biases["bias"] = false;
  const struct {
    const char* name;
    json config;
    std::int64_t parameters;
  } rows[] = {
      // nanoGPT and llm.c print these.
      {"GPT-2 124M", gpt2(12, 768, 12), 124439808},
      {"GPT-2 350M", gpt2(24, 1024, 16), 354823168},
      {"GPT-2 774M", gpt2(36, 1280, 20), 774030080},
      {"GPT-2 1558M", gpt2(48, 1600, 25), 1557611200},
      {"GPT-2 124M without biases", without_biases, 124337664},
      // Counted by Meta's model cards and index files.
      {"Llama-2-7B", llama(32, 4096, 32, 32, 11008, 32000), 6738415616},
      {"Llama-2-13B", llama(40, 5120, 40, 40, 13824, 32000), 13015864320},
      {"Llama-2-70B", llama(80, 8192, 64, 8, 28672, 32000), 68976648192},
      {"Llama-3-8B", llama(32, 4096, 32, 8, 14336, 128256), 8030261248},
      {"Llama-3-70B", llama(80, 8192, 64, 8, 28672, 128256), 70553706496},
      {"Llama-3.1-405B", llama(126, 16384, 128, 8, 53248, 128256), 405853388800},
      {"Llama-3.2-1B", llama(16, 2048, 32, 8, 8192, 128256, true), 1235814400},
      {"Llama-3.2-3B", llama(28, 3072, 24, 8, 8192, 128256, true), 3212749824},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.name));
    const ModelSpec spec = from_config(row.config, row.name);
    CHECK(spec.parameters() == row.parameters);
    CHECK(spec.bytes(2) == 2 * row.parameters);
  }
}

TEST_CASE("a layer of Llama-2-70B has 855,654,400 parameters: what a gather must hold") {
  const ModelSpec spec = from_config(llama(80, 8192, 64, 8, 28672, 32000), "70B");
  CHECK(spec.layer(0).elements == 855654400);
}

// Every held file: its published count, or the words that must stand in the refusal.
struct HeldConfig {
  const char* file;
  std::int64_t parameters;
  std::vector<std::string> refused_for = {};
};

static const std::vector<HeldConfig> kHeld = {
    {"dialogpt-117M.config.json", 124439808},
    {"dialogpt-345M.config.json", 354823168},
    {"dialogpt-762M.config.json", 774030080},
    {"gpt2-large.config.json", 774030080},
    {"gpt2-medium-vocab32000.config.json", 336128000},
    {"llama-2-13b-quantized.config.json", 0, {"quantization_config (\"bitsandbytes\"): quantized weights"}},
    {"llama-2-13b-vocab32016.neuronx.config.json", 13016028160},
    {"llama-2-70b.neuronx.config.json", 68976648192},
    {"llama-2-7b.neuronx.config.json", 6738415616},
    {"llama-3-70b.neuronx.config.json", 70553706496},
    {"llama-3-8b.neuronx.config.json", 8030261248},
    {"llama-3.1-70b-instruct.ttmetal.config.json", 70553706496},
    {"llama-3.1-70b.neuronx.config.json", 70553706496},
    {"llama-3.1-8b-linear-rope-int8.config.json", 0, {"quantization_config (\"bitsandbytes\")"}},
    {"llama-3.1-8b.listed.config.json", 8030261248},
    {"llama-3.1-8b.neuronx.config.json", 8030261248},
    {"llama-3.2-1b-instruct.ttmetal.config.json", 1235814400},
    {"llama-3.2-1b-int8.config.json", 0, {"quantization_config (\"bitsandbytes\")"}},
    {"llama-3.2-3b.config.json", 3212749824},
    {"llama-3.2-3b.listed.config.json", 3212749824},
    {"mistral-7b-instruct-v0.3.ttmetal.config.json", 7248023552},
    {"mixtral-8x7b.neuronx.config.json",
     0,
     {"model_type \"mixtral\" is not supported", "num_local_experts (8): mixture of experts"}},
    {"qwen2.5-14b.listed.config.json", 14770033664},
    {"qwen2.5-7b.listed.config.json", 7615616512},
    {"qwen3-4b.listed.config.json", 4022468096},
    {"qwen3-8b.listed.config.json", 8190735360},
    {"reflection-llama-3.1-70b.config.json", 70553804800},
    {"smollm3-3b.config.json",
     0,
     {"model_type \"smollm3\" is not supported", "no_rope_layers", "layers without rotary embedding"}},
    {"tinyllama-1.1b-chat.config.json", 1100048384},
};

TEST_CASE("every real config is accepted with its published count or refused naming the feature") {
  const auto folder = test::test_data("configs");
  if (!folder) return;
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(*folder))
    if (has(entry.path().filename(), ".config.json")) left.insert(entry.path().filename());
  for (const HeldConfig& row : kHeld) {
    CAPTURE(std::string(row.file));
    left.erase(row.file);
    const json config = held(*folder / row.file);
    if (row.refused_for.empty()) {
      ModelSpec spec;
      REQUIRE_NOTHROW(spec = from_config(config, row.file));
      CHECK(spec.parameters() == row.parameters);
    }
    for (const std::string& word : row.refused_for)
      CHECK_MESSAGE(has(refusal(config), word), refusal(config));
  }
  CHECK_MESSAGE(left.empty(), "no row for ", left.empty() ? "" : *left.begin());
}

TEST_CASE("the linear scaling of a quantized file is read once the quantization is gone") {
  const auto path = test::test_data("configs/llama-3.1-8b-linear-rope-int8.config.json");
  if (!path) return;
  json config = held(*path);
  config.erase("quantization_config");
  const ModelSpec spec = from_config(config, "x");
  CHECK(spec.rope.scaling == Rope::Scaling::linear);
  CHECK(spec.rope.factor == 8.0);
  CHECK(spec.parameters() == 8030261248);
}

TEST_CASE("tinystories-656K has 656,000 parameters") {
  const auto path = test::test_data("models/tinystories-656K/config.json");
  if (!path) return;
  const ModelSpec spec = from_config(held(*path), "x");
  CHECK(spec.parameters() == 656000);
  CHECK(spec.heads == 8);
  CHECK(spec.kv_heads == 4);
  CHECK(spec.tied);
  CHECK(spec.norm_eps == 1e-6f);
}

TEST_CASE("the tensor names and bytes of real index files are ours") {
  const struct {
    const char *config, *index;
    int bytes_per_element;
  } rows[] = {
      {"configs/llama-3.2-3b.config.json", "configs/llama-3.2-3b.model.safetensors.index.json", 2},
      {"configs/reflection-llama-3.1-70b.config.json",
       "configs/reflection-llama-3.1-70b.model.safetensors.index.json", 4},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.index));
    const auto config = test::test_data(row.config), index = test::test_data(row.index);
    if (!config || !index) return;
    const ModelSpec spec = from_config(held(*config), row.config);
    const json map = held(*index);
    CHECK(spec.bytes(row.bytes_per_element) == map["metadata"]["total_size"].get<std::int64_t>());
    std::set<std::string> ours, theirs;
    for (const BlockSpec& block : spec.blocks)
      for (const TensorSpec& t : block.tensors) ours.insert(t.name);
    for (const auto& [name, file] : map["weight_map"].items()) theirs.insert(name);
    CHECK(ours == theirs);
  }
}

TEST_CASE("blocks have no gaps, roles are unique, and matrices alone decay") {
  for (const char* type : {"gpt2", "llama", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(std::string(type));
    const ModelSpec spec = from_config(tiny(type), type);
    REQUIRE(spec.blocks.size() == 5);
    for (const BlockSpec& block : spec.blocks) {
      std::int64_t next = 0;
      std::set<std::string> roles;
      for (const TensorSpec& t : block.tensors) {
        CAPTURE(t.name);
        CHECK(t.offset == next);
        next += t.elements();
        CHECK(t.decay == (t.shape.size() == 2));
        CHECK(roles.insert(t.role).second);
        CHECK(has(t.name, t.role));
        CHECK(&block.at(t.role) == &t);
        CHECK((t.init == Init::normal_residual) ==
              (has(t.name, "c_proj.weight") || has(t.name, "o_proj.weight") ||
               has(t.name, "down_proj.weight")));
      }
      CHECK(next == block.elements);
      CHECK(block.find("nothing") == nullptr);
      CHECK_THROWS_AS(block.at("nothing"), Error);
    }
  }
}

TEST_CASE("what one product reads lies together: q, k, v; their biases; gate and up") {
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    CAPTURE(std::string(type));
    json config = tiny(type);
    if (config["model_type"] == "llama") config["attention_bias"] = config["mlp_bias"] = true;
    const BlockSpec block = from_config(config, type).layer(1);
    const auto adjacent = [&](const char* a, const char* b) {
      return block.at(a).offset + block.at(a).elements() == block.at(b).offset;
    };
    CHECK(adjacent("q_proj.weight", "k_proj.weight"));
    CHECK(adjacent("k_proj.weight", "v_proj.weight"));
    CHECK(adjacent("gate_proj.weight", "up_proj.weight"));
    if (block.find("q_proj.bias") == nullptr) continue;
    CHECK(adjacent("q_proj.bias", "k_proj.bias"));
    CHECK(adjacent("k_proj.bias", "v_proj.bias"));
  }
}

TEST_CASE("each model type has the biases and norms that transformers gives it") {
  const struct {
    const char* type;
    bool attention_bias;
    bool q_bias, o_bias, q_norm;
  } rows[] = {{"llama", false, false, false, false},   {"llama", true, true, true, false},
              {"mistral", false, false, false, false}, {"qwen2", false, true, false, false},
              {"qwen3", false, false, false, true},    {"qwen3", true, true, true, true}};
  for (const auto& row : rows) {
    CAPTURE(std::string(row.type));
    json config = tiny(row.type);
    if (row.attention_bias) config["attention_bias"] = true;
    const BlockSpec block = from_config(config, row.type).layer(0);
    CHECK((block.find("q_proj.bias") != nullptr) == row.q_bias);
    CHECK((block.find("o_proj.bias") != nullptr) == row.o_bias);
    CHECK((block.find("q_norm.weight") != nullptr) == row.q_norm);
  }
}

TEST_CASE("GPT-2 stores matrices as [in, out], Llama as [out, in]") {
  const ModelSpec g = from_config(tiny("gpt2"), "g"), l = from_config(tiny("llama"), "l");
  CHECK(g.layer(2).at("attn.c_attn.weight").shape == std::vector<std::int64_t>{32, 96});
  CHECK(g.layer(2).at("mlp.c_proj.weight").shape == std::vector<std::int64_t>{128, 32});
  CHECK(g.layer(2).at("attn.c_attn.weight").name == "transformer.h.2.attn.c_attn.weight");
  CHECK(l.layer(2).at("k_proj.weight").shape == std::vector<std::int64_t>{16, 32});
  CHECK(l.layer(2).at("down_proj.weight").shape == std::vector<std::int64_t>{32, 48});
  CHECK(l.layer(2).at("k_proj.weight").name == "model.layers.2.self_attn.k_proj.weight");
  CHECK(l.layer(2).at("up_proj.weight").name == "model.layers.2.mlp.up_proj.weight");
  CHECK(l.head().at("lm_head.weight").name == "lm_head.weight");
  CHECK(g.head().find("lm_head.weight") == nullptr);
}

TEST_CASE("windows follow each type's keys") {
  const auto windows = [](const char* type, json keys) {
    json config = tiny(type);
    config.update(keys);
    return from_config(config, type).windows;
  };
  using Windows = std::vector<int>;
  CHECK(windows("llama", {{"sliding_window", 8}}) == Windows{0, 0, 0});
  CHECK(windows("mistral", {{"sliding_window", 8}}) == Windows{8, 8, 8});
  CHECK(windows("mistral", {{"sliding_window", nullptr}}) == Windows{0, 0, 0});
  CHECK(windows("mistral", json::object()) == Windows{4096, 4096, 4096});
  CHECK(windows("qwen2", {{"sliding_window", 8}, {"max_window_layers", 1}}) == Windows{0, 0, 0});
  const json use = {{"sliding_window", 8}, {"max_window_layers", 1}, {"use_sliding_window", true}};
  CHECK(windows("qwen2", use) == Windows{0, 8, 8});
  const json listed = {{"sliding_window", 8},
                       {"use_sliding_window", true},
                       {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}};
  CHECK(windows("qwen3", listed) == Windows{8, 0, 8});
}

TEST_CASE("token ids are one, several or none; ids outside the vocabulary are dropped") {
  json config = tiny("llama");
  config["eos_token_id"] = {5, 6, 64};
  config["bos_token_id"] = 3;
  config["pad_token_id"] = -1;
  const ModelSpec spec = from_config(config, "x");
  CHECK(spec.eos_tokens == std::vector<int>{5, 6});
  CHECK(spec.bos_token == 3);
  CHECK(!spec.pad_token);
  CHECK(from_config(tiny("llama"), "x").eos_tokens.empty());
}

TEST_CASE("scores are scaled by the root of the head size, or not at all where the config says so") {
  json config = tiny("gpt2");
  CHECK(from_config(config, "x").attention_scale == doctest::Approx(0.35355339));
  config["scale_attn_weights"] = false;
  CHECK(from_config(config, "x").attention_scale == 1.f);
}

TEST_CASE("GPT-2 takes the common names of its sizes") {
  const json common = {{"model_type", "gpt2"}, {"num_hidden_layers", 12},
                       {"hidden_size", 768},   {"num_attention_heads", 12},
                       {"vocab_size", 50257},  {"max_position_embeddings", 1024}};
  CHECK(from_config(common, "x") == from_config(gpt2(12, 768, 12), "x"));
}

TEST_CASE("a wrong value is refused with its key, the value and what would be right") {
  const struct {
    const char* type;
    json keys;
    const char* message;
  } rows[] = {
      {"llama", {{"hidden_size", "4096"}}, "hidden_size must be a whole number, is \"4096\""},
      {"llama", {{"hidden_size", 32.5}}, "hidden_size must be a whole number, is 32.5"},
      {"llama", {{"hidden_size", 1e300}}, "hidden_size must be a whole number, is 1e+300"},
      {"llama", {{"hidden_size", nullptr}}, "hidden_size is missing"},
      {"llama", {{"num_hidden_layers", -1}}, "num_hidden_layers must be between 1 and 4096, is -1"},
      {"llama", {{"num_hidden_layers", 0}}, "num_hidden_layers must be between 1 and 4096, is 0"},
      {"llama", {{"num_hidden_layers", 2000000000}}, "num_hidden_layers must be between 1 and 4096"},
      {"llama", {{"vocab_size", 18446744073709551615u}}, "vocab_size must be between 1 and"},
      {"llama", {{"vocab_size", true}}, "vocab_size must be a whole number, is true"},
      {"llama", {{"vocab_size", json::array({1})}}, "vocab_size must be a whole number, is a list"},
      {"llama",
       {{"num_attention_heads", 5}},
       "hidden_size (32) must be a multiple of num_attention_heads (5)"},
      {"llama",
       {{"num_key_value_heads", 3}},
       "num_attention_heads (4) must be a multiple of num_key_value_heads (3)"},
      {"llama", {{"head_dim", 7}}, "the head size (7) must be even for rotary embedding"},
      {"llama", {{"rms_norm_eps", 0}}, "rms_norm_eps must be between 1e-12 and 1, is 0"},
      {"llama", {{"rms_norm_eps", "1e-5"}}, "rms_norm_eps must be a number, is \"1e-5\""},
      {"llama", {{"tie_word_embeddings", "no"}}, "tie_word_embeddings must be true or false, is \"no\""},
      {"llama", {{"eos_token_id", "</s>"}}, "eos_token_id must be a token id, is \"</s>\""},
      {"llama", {{"eos_token_id", {1, "x"}}}, "eos_token_id must hold token ids, holds \"x\""},
      {"llama", {{"hidden_act", "gelu"}}, "hidden_act \"gelu\" (the exact form with erf) is not supported"},
      {"llama", {{"hidden_act", "relu"}}, "hidden_act \"relu\" is not supported; supported here: silu"},
      {"gpt2", {{"activation_function", "gelu"}}, "activation_function \"gelu\" (the exact form with erf)"},
      {"gpt2", {{"activation_function", "relu"}}, "supported here: gelu_new, gelu_pytorch_tanh"},
      {"gpt2",
       {{"scale_attn_by_inverse_layer_idx", true}},
       "scale_attn_by_inverse_layer_idx (true): attention"},
      {"gpt2", {{"reorder_and_upcast_attn", true}}, "reorder_and_upcast_attn (true): reordered attention"},
      {"gpt2",
       {{"add_cross_attention", true}},
       "add_cross_attention (true): cross attention is not supported"},
      {"gpt2", {{"hidden_size", 64}}, "hidden_size is 64 but n_embd is 32; they mean the same"},
      {"gpt2", {{"n_head", 5}}, "n_embd (32) must be a multiple of n_head (5)"},
      {"llama",
       {{"architectures", {"LlamaForSequenceClassification"}}},
       "architectures names \"LlamaForSequenceClassification\", which is not supported; llama models here "
       "are "
       "LlamaForCausalLM"},
      {"llama", {{"architectures", 7}}, "architectures must be a short list of names, is 7"},
      {"llama", {{"model_type", 7}}, "model_type must be a word, is 7"},
      {"llama",
       {{"model_type", "gemma"}},
       "model_type \"gemma\" is not supported; these are: gpt2, llama, mistral, qwen2, qwen3"},
      {"llama", {{"model_type", nullptr}}, "model_type is missing; these are supported: gpt2, llama"},
      {"llama", {{"tie_word_embedding", true}}, "accepted"},  // the right key is there too
      {"llama", {{"num_key_valu_heads", 2}}, "accepted"},
      {"llama", {{"rope_thetta", 5e5}}, "rope_thetta is unknown; did you mean rope_theta?"},
      {"llama",
       {{"some_new_key", 1}, {"torch_dtype", "float32"}, {"dtype", "x"}, {"pretraining_tp", 2}},
       "accepted"},
      {"llama", {{"attention_dropout", 0.1}}, "accepted"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor (0.5): rotary embedding of a part"},
      {"llama", {{"final_logit_softcapping", 30.0}}, "final_logit_softcapping (30.0): capped logits"},
      {"llama", {{"auto_map", {{"AutoModel", "x.Y"}}}}, "auto_map: a model with its own Python code"},
      {"mistral", {{"attention_bias", true}}, "attention_bias true is not supported for model_type mistral"},
      {"qwen2", {{"mlp_bias", true}}, "mlp_bias true is not supported for model_type qwen2"},
      {"qwen2",
       {{"layer_types", {"full_attention"}}},
       "layer_types must list one word for each of the 3 layers"},
      {"qwen3",
       {{"layer_types", {"full_attention", "full_attention", "linear_attention"}}},
       "layer_types holds \"linear_attention\", which is not supported"},
      {"qwen3",
       {{"layer_types", {"full_attention", "full_attention", "sliding_attention"}}},
       "layer_types asks for sliding_attention, but no sliding window is in use"},
      {"llama", {{"rope_theta", 0}}, "rope_theta must be between"},
      {"llama", {{"rope_scaling", 8}}, "rope_scaling must be an object, is 8"},
      {"llama", {{"rope_scaling", {{"type", "linear"}}}}, "rope_scaling.factor is missing"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 4.0}}}},
       "rope_scaling.rope_type \"longrope\" is not supported; these are: default, linear, dynamic, llama3, "
       "yarn"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 4.0}}}},
       "rope_scaling.rope_type is \"yarn\" but type is \"linear\"; they mean the same"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}},
       "rope_scaling.factor must be between 1 and"},
      {"llama",
       {{"rope_scaling", {{"type", "llama3"}, {"factor", 8}}}},
       "rope_scaling.low_freq_factor is missing"},
      {"llama",
       {{"rope_scaling",
         {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}},
       "rope_scaling.high_freq_factor must be above low_freq_factor; they are 4 and 4"},
      {"llama",
       {{"rope_theta", 1e4}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}},
       "rope_theta is 10000 at the top but 500000 inside rope_parameters"},
      {"llama",
       {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}},
       "rope_parameters holds one rotary embedding for each kind of layer"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
        {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}}}},
       "rope_scaling and rope_parameters disagree"},
  };
  for (const auto& row : rows) {
    json config = tiny(row.type);
    config.update(row.keys);
    CAPTURE(row.keys.dump());
    const std::string answer = refusal(config);
    CHECK_MESSAGE(has(answer, row.message), answer);
  }
}

TEST_CASE("keys whose default is seldom meant must be there") {
  for (const char* type : {"mistral", "qwen2", "qwen3"}) {
    json config = tiny(type);
    config.erase("num_key_value_heads");
    CHECK(has(refusal(config), "num_key_value_heads is missing"));
    config["num_key_value_heads"] = nullptr;  // as many as query heads, for Hugging Face too
    CHECK(from_config(config, type).kv_heads == 4);
  }
  json qwen3 = tiny("qwen3");
  qwen3.erase("head_dim");
  CHECK(has(refusal(qwen3), "head_dim is missing"));
  json llama_without = tiny("llama");
  llama_without.erase("num_key_value_heads");
  CHECK(from_config(llama_without, "x").kv_heads == 4);
}

TEST_CASE("all faults of a config are told at once, with the file") {
  json config = tiny("llama");
  config["hidden_size"] = "many";
  config["hidden_act"] = "relu";
  config["quantization_config"] = {{"quant_method", "gptq"}};
  config.erase("vocab_size");
  const std::string answer = refusal(config);
  for (const char* part : {"config.json does not describe", "hidden_size must be", "hidden_act \"relu\"",
                           "quantization_config (\"gptq\")", "vocab_size is missing", "hint: "})
    CHECK_MESSAGE(has(answer, part), answer);
}

TEST_CASE("tensors beyond any machine are refused, not overflowed") {
  json config = llama(1, 1 << 24, 1 << 16, 1, 1 << 26, 1 << 28);
  config["head_dim"] = 4096;
  const std::string answer = refusal(config);
  CHECK_MESSAGE(has(answer, "model.embed_tokens.weight would have 4,503,599,627,370,496 elements"), answer);
  CHECK(has(answer, "q_proj.weight would have"));
  CHECK(has(answer, "lm_head.weight would have"));
}

TEST_CASE("hostile configs get an error, in little time") {
  for (const char* text : {"[]", "7", "null", "\"x\"", "true"})
    CHECK(has(refusal(json::parse(text)), "config.json must be a JSON object"));
  CHECK(has(refusal(json::object()), "model_type is missing"));
  json deep = json::parse(std::string(100000, '[') + std::string(100000, ']'));
  for (const char* key :
       {"hidden_size", "rope_scaling", "architectures", "eos_token_id", "layer_types", "quantization_config",
        "no_rope_layers", "model_type", "hidden_act", "pruned_heads"}) {
    CAPTURE(std::string(key));
    json config = tiny("qwen2");
    config[key] = std::move(deep);
    CHECK(has(refusal(config), key));
    deep = std::move(config[key]);
  }
  json wide = tiny("llama");
  for (int i = 0; i < 50000; ++i) wide[cat("some_unknown_key_number_", i)] = i;
  CHECK(refusal(wide) == "accepted");
  json long_text = tiny("llama");
  long_text["hidden_act"] = std::string(1000000, 'x');
  CHECK(refusal(long_text).size() < 1000);
  long_text["hidden_act"] = "\xff\xfe";
  CHECK(has(refusal(long_text), "hidden_act"));
}

TEST_CASE("an exported config means the same model") {
  const json scalings[] = {
      nullptr,
      {{"type", "linear"}, {"factor", 2.0}},
      {{"rope_type", "dynamic"}, {"factor", 2.0}},
      {{"rope_type", "llama3"},
       {"factor", 8.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 64}},
      {{"rope_type", "yarn"},
       {"factor", 4.0},
       {"original_max_position_embeddings", 64},
       {"mscale", 0.7},
       {"mscale_all_dim", 0.9},
       {"truncate", false}},
  };
  for (const char* type : {"gpt2", "llama", "mistral", "qwen2", "qwen3"})
    for (const json& scaling : scalings) {
      json config = tiny(type);
      config["rope_scaling"] = scaling;
      config["eos_token_id"] = {1, 2};
      config["initializer_range"] = 0.01;
      if (config["model_type"] == "qwen2") {
        config["use_sliding_window"] = true;
        config["sliding_window"] = 8;
        config["max_window_layers"] = 2;
      }
      CAPTURE(config.dump());
      const ModelSpec spec = from_config(config, "original");
      CHECK(from_config(to_config(spec, config), "exported") == spec);
      CHECK(from_config(to_config(spec, json::object()), "exported") == spec);
    }
}

TEST_CASE("an exported config keeps the keys of the original and writes floats as people do") {
  json config = tiny("llama");
  config["rms_norm_eps"] = 1e-5;
  config["my_note"] = "kept";
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  const json out = to_config(from_config(config, "x"), config);
  CHECK(out["my_note"] == "kept");
  CHECK(out["architectures"] == json::array({"LlamaForCausalLM"}));
  CHECK(out["rope_theta"] == 5e5);
  CHECK(out["rms_norm_eps"].dump() == "1e-05");
  CHECK(out["eos_token_id"].is_null());
}

TEST_CASE("the description lists a layer once, with shapes, counts and decay") {
  const std::string text = describe(from_config(gpt2(12, 768, 12), "x"));
  for (const char* part : {"gpt2: 12 layers, width 768, 12 heads of 64", "each of 12 layers",
                           "transformer.h.0.attn.c_attn.weight", "[768, 2304]", "124,439,808 parameters",
                           // 50257*768 + 1024*768 + 12*12*768^2: nanoGPT prints 124,318,464 decayed here
                           "124,318,464 with weight decay"})
    CHECK_MESSAGE(has(text, part), text);
  CHECK(!has(text, "transformer.h.1."));
}

}  // namespace zt::spec
