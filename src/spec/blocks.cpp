// D = model width, F = inner width of the MLP, Q and K = columns of q and of k (and v), d = head size,
// V = vocabulary, P = positions.
#include "spec/blocks.h"

#include "base/text.h"

namespace zt::spec {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

class BlockBuilder {
 public:
  BlockBuilder(std::string name, BlockKind kind, std::string prefix) : prefix_(std::move(prefix)) {
    block_.name = std::move(name);
    block_.kind = kind;
  }

  // `path` is the tensor's name below the prefix.
  void matrix(const std::string& path, std::int64_t rows, std::int64_t columns, Init init = Init::normal) {
    add(path, {rows, columns}, true, init);
  }
  void vector(const std::string& path, std::int64_t size, Init init) { add(path, {size}, false, init); }
  BlockSpec finish() { return std::move(block_); }

 private:
  // Llama's names are unique below these folders, so its roles go without them; GPT-2's (c_proj twice) are
  // not.
  static std::string role_of(const std::string& path) {
    for (const char* folder : {"self_attn.", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      if (!starts_with(path, folder)) continue;
      return path.substr(path.find('.') + 1);
    }
    return path;
  }

  void add(const std::string& path, std::vector<std::int64_t> shape, bool decay, Init init) {
    TensorSpec t{prefix_ + path, role_of(path), std::move(shape), block_.elements, decay, init};
    block_.elements += t.elements();
    block_.tensors.push_back(std::move(t));
  }

  std::string prefix_;
  BlockSpec block_;
};

void gpt2_norm(BlockBuilder& b, const ModelSpec& s, const std::string& path) {
  b.vector(path + ".weight", s.hidden, Init::ones);
  if (s.gpt2_bias) b.vector(path + ".bias", s.hidden, Init::zeros);
}

// Conv1D: stored [in, out].
void gpt2_linear(BlockBuilder& b, const ModelSpec& s, const std::string& path, std::int64_t in,
                 std::int64_t out, Init init = Init::normal) {
  b.matrix(path + ".weight", in, out, init);
  if (s.gpt2_bias) b.vector(path + ".bias", out, Init::zeros);
}

BlockSpec gpt2_layer(const ModelSpec& s, int layer) {
  const std::int64_t D = s.hidden, F = s.intermediate;
  BlockBuilder b(cat("layer ", layer), BlockKind::transformer, cat("transformer.h.", layer, "."));
  gpt2_norm(b, s, "ln_1");
  gpt2_linear(b, s, "attn.c_attn", D, 3 * D);
  gpt2_linear(b, s, "attn.c_proj", D, D, Init::normal_residual);
  gpt2_norm(b, s, "ln_2");
  gpt2_linear(b, s, "mlp.c_fc", D, F);
  gpt2_linear(b, s, "mlp.c_proj", F, D, Init::normal_residual);
  return b.finish();
}

void llama_attention(BlockBuilder& b, const ModelSpec& s) {
  const std::int64_t D = s.hidden, Q = s.q_size(), K = s.kv_size(), d = s.head_size;
  b.matrix("self_attn.q_proj.weight", Q, D);
  b.matrix("self_attn.k_proj.weight", K, D);
  b.matrix("self_attn.v_proj.weight", K, D);
  if (s.qkv_bias) {
    b.vector("self_attn.q_proj.bias", Q, Init::zeros);
    b.vector("self_attn.k_proj.bias", K, Init::zeros);
    b.vector("self_attn.v_proj.bias", K, Init::zeros);
  }
  if (s.qk_norm) {
    b.vector("self_attn.q_norm.weight", d, Init::ones);
    b.vector("self_attn.k_norm.weight", d, Init::ones);
  }
  b.matrix("self_attn.o_proj.weight", D, Q, Init::normal_residual);
  if (s.o_bias) b.vector("self_attn.o_proj.bias", D, Init::zeros);
}

void llama_mlp(BlockBuilder& b, const ModelSpec& s) {
  const std::int64_t D = s.hidden, F = s.intermediate;
  b.matrix("mlp.gate_proj.weight", F, D);
  b.matrix("mlp.up_proj.weight", F, D);
  if (s.mlp_bias) {
    b.vector("mlp.gate_proj.bias", F, Init::zeros);
    b.vector("mlp.up_proj.bias", F, Init::zeros);
  }
  b.matrix("mlp.down_proj.weight", D, F, Init::normal_residual);
  if (s.mlp_bias) b.vector("mlp.down_proj.bias", D, Init::zeros);
}

BlockSpec llama_layer(const ModelSpec& s, int layer) {
  BlockBuilder b(cat("layer ", layer), BlockKind::transformer, cat("model.layers.", layer, "."));
  b.vector("input_layernorm.weight", s.hidden, Init::ones);
  llama_attention(b, s);
  b.vector("post_attention_layernorm.weight", s.hidden, Init::ones);
  llama_mlp(b, s);
  return b.finish();
}

BlockSpec embedding_block(const ModelSpec& s) {
  const bool gpt2 = s.family == Family::gpt2;
  BlockBuilder b("embedding", BlockKind::embedding, gpt2 ? "transformer." : "model.");
  b.matrix(gpt2 ? "wte.weight" : "embed_tokens.weight", s.vocab, s.hidden);
  if (gpt2) b.matrix("wpe.weight", s.max_positions, s.hidden);
  return b.finish();
}

BlockSpec head_block(const ModelSpec& s) {
  const bool gpt2 = s.family == Family::gpt2;
  BlockBuilder b("head", BlockKind::head, gpt2 ? "transformer." : "model.");
  if (gpt2)
    gpt2_norm(b, s, "ln_f");
  else
    b.vector("norm.weight", s.hidden, Init::ones);
  BlockSpec head = b.finish();
  if (s.tied) return head;
  TensorSpec lm_head{"lm_head.weight", "lm_head.weight", {s.vocab, s.hidden}, head.elements, true,
                     Init::normal};
  head.elements += lm_head.elements();
  head.tensors.push_back(std::move(lm_head));
  return head;
}

void check_elements(const BlockSpec& block, Problems& problems) {
  for (const TensorSpec& t : block.tensors)
    if (t.elements() > kMostElements)
      problems.add(cat(t.name, " would have ", with_commas(t.elements()), " elements; the most is ",
                       with_commas(kMostElements)));
}

}  // namespace

void build_blocks(ModelSpec& spec, Problems& problems) {
  const bool gpt2 = spec.family == Family::gpt2;
  spec.blocks = {embedding_block(spec)};
  for (int i = 0; i < spec.layers; ++i)
    spec.blocks.push_back(gpt2 ? gpt2_layer(spec, i) : llama_layer(spec, i));
  spec.blocks.push_back(head_block(spec));
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, spec.blocks.size() - 1})
    check_elements(spec.blocks[i], problems);
}

}  // namespace zt::spec
