// What a model is: its blocks, tensors, shapes and sizes, by arithmetic on Hugging Face's config.json. Opens
// no file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zt::spec {

// The two kinds of layer. Mistral, Qwen2 and Qwen3 are Llama with flags.
enum class Family { gpt2, llama };
const char* name(Family family);

// How a tensor of a new model starts. `normal` has standard deviation ModelSpec::init_std; `normal_residual`
// (projections into the residual stream) has init_std / sqrt(2 L), L = layers. Source: Radford et al.
// 2019, 2.3.
enum class Init { normal, normal_residual, zeros, ones };

struct TensorSpec {
  std::string name;  // Hugging Face's full name: "model.layers.0.self_attn.q_proj.weight"
  std::string role;  // within the block: "q_proj.weight", "attn.c_attn.weight"
  std::vector<std::int64_t>
      shape;                // as stored; GPT-2 matrices are Conv1D [in, out], Llama's Linear [out, in]
  std::int64_t offset = 0;  // elements from the start of the block
  bool decay = false;       // weight decay: matrices (embeddings too) yes, norms and biases no
  Init init = Init::normal;
  bool trainable = true;  // false: its values never change; see spec/freeze.h
  std::int64_t elements() const;
  bool operator==(const TensorSpec&) const = default;
};

enum class BlockKind { embedding, transformer, head };

// A block is what a step gathers, computes and updates at once. Its tensors lie one after the other without
// gaps, so that neighbours can be one matrix. Roles, in order ([] where the model has them):
//   embedding    gpt2  wte.weight wpe.weight
//                llama embed_tokens.weight
//   transformer  gpt2  ln_1.weight [ln_1.bias] attn.c_attn.weight [attn.c_attn.bias]
//                      attn.c_proj.weight [attn.c_proj.bias] ln_2.weight [ln_2.bias]
//                      mlp.c_fc.weight [mlp.c_fc.bias] mlp.c_proj.weight [mlp.c_proj.bias]
//                llama input_layernorm.weight q_proj.weight k_proj.weight v_proj.weight
//                      [q_proj.bias k_proj.bias v_proj.bias] [q_norm.weight k_norm.weight]
//                      o_proj.weight [o_proj.bias] post_attention_layernorm.weight
//                      gate_proj.weight up_proj.weight [gate_proj.bias up_proj.bias]
//                      down_proj.weight [down_proj.bias]
//   head         gpt2  ln_f.weight [ln_f.bias] [lm_head.weight]
//                llama norm.weight [lm_head.weight]
// lm_head.weight is absent where embeddings are tied: the head then uses the matrix of the embedding block.
struct BlockSpec {
  std::string name;  // "embedding", "layer 0", "head"
  BlockKind kind = BlockKind::transformer;
  std::vector<TensorSpec> tensors;
  std::int64_t elements = 0;                            // sum over tensors
  bool trainable() const;                               // whether any tensor is
  const TensorSpec* find(std::string_view role) const;  // nullptr when the block has none
  const TensorSpec& at(std::string_view role) const;    // throws a bug otherwise
  bool operator==(const BlockSpec&) const = default;
};

// Position embedding by rotation. `scaling` is Hugging Face's rope_type; spec/rope.h makes frequencies of it.
struct Rope {
  enum class Scaling { none, linear, dynamic, llama3, yarn };
  double theta = 10000.0;
  Scaling scaling = Scaling::none;
  double factor = 1.0;
  int original_positions = 0;  // context before scaling (max_positions when the config does not say)
  double low_freq_factor = 1.0, high_freq_factor = 4.0;            // llama3
  double beta_fast = 32.0, beta_slow = 1.0;                        // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  bool truncate = true;                                            // yarn
  bool operator==(const Rope&) const = default;
};
const char* name(Rope::Scaling scaling);

struct ModelSpec {
  Family family = Family::llama;
  std::string model_type;  // gpt2, llama, mistral, qwen2, qwen3
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, intermediate = 0, vocab = 0;
  int max_positions = 0;   // GPT-2: rows of wpe. Otherwise the context the model is meant for.
  float norm_eps = 1e-5f;  // layer norm (gpt2) or RMS norm
  float init_std = 0.02f;
  bool tied = false;  // the head uses the embedding's matrix
  bool gpt2_bias =
      false;  // every linear and layer norm of GPT-2 has a bias (our key "bias": false, as nanoGPT)
  bool qkv_bias = false, o_bias = false, mlp_bias = false;  // llama family
  bool qk_norm = false;                                     // RMS norm over each head of q and of k (qwen3)
  Rope rope;                                                // llama family
  float attention_scale =
      1.f;  // scores are q.k times this: 1/sqrt(head_size), or 1 for scale_attn_weights: false
  std::vector<int> windows;  // per layer: keys a query sees, itself included; 0 = all before it
  // As written in the config; absent when it does not say, or names an id outside the vocabulary.
  std::optional<int> bos_token, pad_token;
  std::vector<int> eos_tokens;
  std::vector<BlockSpec> blocks;  // embedding, `layers` transformer blocks, head

  std::int64_t parameters() const;  // a tied matrix counts once
  std::int64_t bytes(int bytes_per_element) const { return parameters() * bytes_per_element; }
  const BlockSpec& embedding() const { return blocks.front(); }
  const BlockSpec& layer(int index) const { return blocks.at(std::size_t(index) + 1); }
  const BlockSpec& head() const { return blocks.back(); }
  int window(int layer) const { return windows.at(std::size_t(layer)); }
  int q_size() const { return heads * head_size; }      // columns of q and rows of o
  int kv_size() const { return kv_heads * head_size; }  // columns of k, and of v
  bool operator==(const ModelSpec&) const = default;
};

// Reads a parsed config.json of model type gpt2 (old files without model_type too), llama, mistral, qwen2 or
// qwen3. Sizes must be written out; other missing keys take Hugging Face's defaults of that type. Throws
// Error(model) listing all faults: what is missing, mistyped or out of bounds, and what would change the
// mathematics and is not supported, by name. Other unknown keys are ignored, as is dropout (the recipe has
// it) and torch_dtype (the tensors decide). `where` names the config in errors (a file, or "model.config").
ModelSpec from_config(const nlohmann::json& config, const std::string& where);

// The config.json of `spec` for export: `original` with everything that `spec` means written out, so that
// transformers loads it. The exporter sets torch_dtype.
nlohmann::json to_config(const ModelSpec& spec, const nlohmann::json& original);

// A table for people: every tensor of the first layer of each kind with shape, elements, decay; then totals.
std::string describe(const ModelSpec& spec);

}  // namespace zt::spec
