// Letters: V = vocabulary, D = width, F = inner width, H = heads, K = key/value heads, S = head size, L =
// layers.
#include "support/stories260k.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/paths.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Reads little-endian values one after another.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  template <typename T>
  T value() {
    T out;
    std::memcpy(&out, take(sizeof(T)), sizeof(T));
    return out;
  }
  std::vector<float> floats(std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    std::memcpy(out.data(), take(out.size() * sizeof(float)), out.size() * sizeof(float));
    return out;
  }
  std::string text(std::size_t size) { return {take(size), size}; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const char* take(std::size_t size) {
    if (bytes_.size() - at_ < size) throw std::runtime_error("file ends too early");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

struct Shape {
  std::int32_t D, F, L, H, K, V, context;
  std::int64_t S() const { return D / H; }
};

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

// llama2.c rotates neighbouring rows (2i, 2i + 1), Hugging Face row i with row i + S/2.
std::vector<float> halves_from_pairs(const std::vector<float>& w, std::int64_t heads, std::int64_t S,
                                     std::int64_t D) {
  std::vector<float> out(w.size());
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < S; ++row) {
      const std::int64_t to = row % 2 * (S / 2) + row / 2;
      std::copy_n(w.begin() + (head * S + row) * D, D, out.begin() + (head * S + to) * D);
    }
  return out;
}

// One kind of tensor, all layers in a row.
void read_layers(Reader& in, const Shape& s, const std::string& name, std::vector<std::int64_t> shape,
                 Tensors* out) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  for (int layer = 0; layer < s.L; ++layer)
    (*out)["model.layers." + std::to_string(layer) + "." + name + ".weight"] = {shape, in.floats(count)};
}

void permute_rows(const Shape& s, const std::string& name, std::int64_t heads, Tensors* tensors) {
  for (int layer = 0; layer < s.L; ++layer) {
    auto& w = tensors->at("model.layers." + std::to_string(layer) + ".self_attn." + name + ".weight").values;
    w = halves_from_pairs(w, heads, s.S(), s.D);
  }
}

Tensors read_weights(Reader& in, const Shape& s) {
  Tensors out;
  const std::int64_t D = s.D, F = s.F, kv = s.K * s.S();
  out["model.embed_tokens.weight"] = {{s.V, D}, in.floats(std::int64_t{s.V} * D)};
  read_layers(in, s, "input_layernorm", {D}, &out);
  read_layers(in, s, "self_attn.q_proj", {D, D}, &out);
  read_layers(in, s, "self_attn.k_proj", {kv, D}, &out);
  read_layers(in, s, "self_attn.v_proj", {kv, D}, &out);
  read_layers(in, s, "self_attn.o_proj", {D, D}, &out);
  read_layers(in, s, "post_attention_layernorm", {D}, &out);
  read_layers(in, s, "mlp.gate_proj", {F, D}, &out);
  read_layers(in, s, "mlp.down_proj", {D, F}, &out);
  read_layers(in, s, "mlp.up_proj", {F, D}, &out);
  out["model.norm.weight"] = {{D}, in.floats(D)};
  in.floats(s.context * s.S());  // tables of cosines and sines
  if (!in.at_end()) throw std::runtime_error("weights of stories260K: bytes left over");
  permute_rows(s, "q_proj", s.H, &out);
  permute_rows(s, "k_proj", s.K, &out);
  return out;
}

std::string safetensors(const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  const std::uint64_t size = text.size();
  std::memcpy(length.data(), &size, sizeof size);
  return length + text + data;
}

Json config_of(const Shape& s) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", s.D},
          {"intermediate_size", s.F},
          {"num_hidden_layers", s.L},
          {"num_attention_heads", s.H},
          {"num_key_value_heads", s.K},
          {"vocab_size", s.V},
          {"max_position_embeddings", s.context},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", true},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"torch_dtype", "float32"}};
}

struct Piece {
  std::string text;
  float score;
};

void replace_all(std::string* text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text->find(what, at)) != std::string::npos; at += with.size())
    text->replace(at, what.size(), with);
}

// Ids 0 to 2 are <unk>, <s>, </s>; 3 to 258 are the bytes. llama2.c writes the first two with line ends
// around.
std::vector<Piece> read_pieces(Reader& in, std::int32_t V) {
  in.value<std::int32_t>();  // longest piece
  std::vector<Piece> pieces;
  for (std::int32_t id = 0; id < V; ++id) {
    const auto score = in.value<float>();
    std::string text = in.text(static_cast<std::size_t>(in.value<std::int32_t>()));
    replace_all(&text, "\n", "");
    if (id > 258) replace_all(&text, " ", "\u2581");
    pieces.push_back({text, score});
  }
  pieces[0].text = "<unk>";
  return pieces;
}

// A SentencePiece model merges the pair whose result has the best score. As ranked pairs: every way to cut a
// piece into two pieces, best score first. Source: huggingface/transformers, convert_slow_tokenizer.py,
// generate_merges.
Json merges_of(const std::vector<Piece>& pieces, const Json& vocab) {
  struct Cut {
    float score;
    std::string left, right;
  };
  std::vector<Cut> cuts;
  for (const Piece& piece : pieces)
    for (std::size_t at = 1; at < piece.text.size(); ++at) {
      const std::string left = piece.text.substr(0, at), right = piece.text.substr(at);
      const bool whole = (static_cast<unsigned char>(right[0]) & 0xC0) != 0x80;
      if (whole && vocab.contains(left) && vocab.contains(right)) cuts.push_back({piece.score, left, right});
    }
  std::stable_sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.score > b.score; });
  Json merges = Json::array();
  for (const Cut& cut : cuts) merges.push_back({cut.left, cut.right});
  return merges;
}

Json added_token(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json tokenizer_of(const std::vector<Piece>& pieces) {
  Json vocab = Json::object();
  for (std::size_t id = 0; id < pieces.size(); ++id) vocab[pieces[id].text] = id;
  const Json mark = {{"String", "\u2581"}}, space = {{"String", " "}};
  Json model = {{"type", "BPE"},         {"unk_token", "<unk>"}, {"fuse_unk", true},
                {"byte_fallback", true}, {"vocab", vocab},       {"merges", merges_of(pieces, vocab)}};
  Json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  Json to_mark = {{"type", "Replace"}, {"pattern", space}, {"content", "\u2581"}};
  Json to_space = {{"type", "Replace"}, {"pattern", mark}, {"content", " "}};
  Json decoders = Json::array({to_space, Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}},
                               Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}});
  Json whole_text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  Json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  Json bos_entry = {{"id", "<s>"}, {"ids", Json::array({1})}, {"tokens", Json::array({"<s>"})}};
  return {
      {"version", "1.0"},
      {"added_tokens", Json::array({added_token(0, "<unk>"), added_token(1, "<s>"), added_token(2, "</s>")})},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", Json::array({prepend, to_mark})}}},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", Json::array({bos, whole_text})},
        {"pair", Json::array({bos, whole_text})},
        {"special_tokens", {{"<s>", bos_entry}}}}},
      {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
      {"model", model}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

void write_stories260k(const fs::path& bin, const fs::path& tok, const fs::path& dir) {
  Reader weights(read_file(bin)), pieces(read_file(tok));
  Shape s{};
  for (std::int32_t* field : {&s.D, &s.F, &s.L, &s.H, &s.K, &s.V, &s.context})
    *field = weights.value<std::int32_t>();
  if (s.V <= 0 || s.H <= 0) throw std::runtime_error("stories260K must have tied weights");
  fs::create_directories(dir);
  write(dir / "config.json", config_of(s).dump(2));
  write(dir / "model.safetensors", safetensors(read_weights(weights, s)));
  write(dir / "tokenizer.json", tokenizer_of(read_pieces(pieces, s.V)).dump(1));
  const Json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"add_bos_token", true},
                         {"bos_token", "<s>"},
                         {"eos_token", "</s>"},
                         {"unk_token", "<unk>"},
                         {"clean_up_tokenization_spaces", false}};
  write(dir / "tokenizer_config.json", settings.dump(2));
}

}  // namespace zt::test
