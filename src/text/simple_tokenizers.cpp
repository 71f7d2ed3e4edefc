// The two tokenizers that need no files.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "text/byte_alphabet.h"
#include "text/document.h"
#include "text/json_fields.h"
#include "text/tokenizer.h"
#include "text/tokenizer_settings.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

constexpr std::int32_t kBytes = 256;
// Ids 256 and up. The reserved ones make the vocabulary a multiple of 8.
constexpr std::array<const char*, 8> kByteSpecials = {"<bos>",          "<eos>",         "<pad>",
                                                      "<|im_start|>",   "<|im_end|>",    "<|reserved_0|>",
                                                      "<|reserved_1|>", "<|reserved_2|>"};

// The parts of tokenizer.json that both share.
Json description_of(Json vocab, Json added_tokens, Json pre_tokenizer, Json decoder) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", Json::array()}}}};
}

Json base_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"clean_up_tokenization_spaces", false},
          {"model_max_length", 1000000000000000019884624838656.0}};
}

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(),
                   [](char c) { return static_cast<unsigned char>(c); });
    return ids;
  }

  std::vector<std::int32_t> encode_with_specials(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (std::size_t at = 0; at < text.size();) {
      const auto special = text[at] == '<' ? special_at(text.substr(at)) : std::nullopt;
      ids.push_back(special.value_or(static_cast<unsigned char>(text[at])));
      at += special ? token(*special).size() : 1;
    }
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary()) refuse_id(id, vocabulary());
      if (id < kBytes)
        text += static_cast<char>(id);
      else
        text += token(id);
    }
    return text;
  }

  std::int32_t vocabulary() const override { return kBytes + std::int32_t(kByteSpecials.size()); }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::optional<std::int32_t> eos() const override { return 257; }
  std::optional<std::int32_t> pad() const override { return 258; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  bool is_special(std::int32_t id) const override { return id >= kBytes && id < vocabulary(); }

  std::optional<std::int32_t> id_of(std::string_view wanted) const override {
    for (std::int32_t id = 0; id < vocabulary(); ++id)
      if (token(id) == wanted) return id;
    return std::nullopt;
  }
  std::string token(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return "";
    return id < kBytes ? byte_alphabet()[std::size_t(id)] : kByteSpecials[std::size_t(id - kBytes)];
  }

  Files files() const override {
    Json vocab = Json::object(), added = Json::array(), config = base_config();
    for (std::int32_t id = 0; id < kBytes; ++id) vocab[token(id)] = id;
    for (std::int32_t id = kBytes; id < vocabulary(); ++id)
      added.push_back({{"id", id},
                       {"content", token(id)},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    config["bos_token"] = token(256);
    config["eos_token"] = token(257);
    config["pad_token"] = token(258);
    const Json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    return {{"tokenizer.json", description_of(vocab, added, bytes, bytes).dump(1)},
            {"tokenizer_config.json", config.dump(1)}};
  }

 private:
  std::optional<std::int32_t> special_at(std::string_view text) const {
    for (std::int32_t id = kBytes; id < vocabulary(); ++id)
      if (starts_with(text, token(id))) return id;
    return std::nullopt;
  }
};

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(std::string_view text) {
    require_utf8(text);
    if (text.empty()) throw Error(Blame::data, "a character tokenizer cannot be made from an empty text");
    std::vector<bool> seen(0x110000, false);
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) seen[code_point(text, at)] = true;
    for (std::uint32_t code = 0; code < seen.size(); ++code)
      if (seen[code]) codes_.push_back(code);
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text);
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
      const auto id = id_of_code(code_point(text, at));
      if (!id) refuse_character(text, at, ids.size());
      ids.push_back(*id);
    }
    return ids;
  }
  std::vector<std::int32_t> encode_with_specials(std::string_view text) const override {
    return encode(text);
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary()) refuse_id(id, vocabulary());
      append_utf8(text, codes_[std::size_t(id)]);
    }
    return text;
  }

  std::int32_t vocabulary() const override { return std::int32_t(codes_.size()); }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  std::optional<std::int32_t> eos() const override { return std::nullopt; }
  std::optional<std::int32_t> pad() const override { return std::nullopt; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  bool is_special(std::int32_t) const override { return false; }

  std::optional<std::int32_t> id_of(std::string_view wanted) const override {
    if (wanted.empty() || first_invalid_utf8(wanted) || utf8_length(wanted[0]) != wanted.size())
      return std::nullopt;
    return id_of_code(code_point(wanted, 0));
  }
  std::string token(std::int32_t id) const override {
    std::string text;
    if (id >= 0 && id < vocabulary()) append_utf8(text, codes_[std::size_t(id)]);
    return text;
  }

  Files files() const override {
    Json vocab = Json::object();
    for (std::int32_t id = 0; id < vocabulary(); ++id) vocab[token(id)] = id;
    return {{"tokenizer.json", description_of(vocab, Json::array(), nullptr, {{"type", "Fuse"}}).dump(1)},
            {"tokenizer_config.json", base_config().dump(1)}};
  }

 private:
  std::optional<std::int32_t> id_of_code(std::uint32_t code) const {
    const auto found = std::lower_bound(codes_.begin(), codes_.end(), code);
    if (found == codes_.end() || *found != code) return std::nullopt;
    return std::int32_t(found - codes_.begin());
  }
  [[noreturn]] void refuse_character(std::string_view text, std::size_t at, std::size_t index) const {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n');
    throw Error(Blame::data,
                cat("the character tokenizer has no token for ",
                    describe_character(text.substr(at, utf8_length(text[at]))), ", character ", index,
                    " of the text (line ", line, "); it knows the ", codes_.size(),
                    " characters of its training text"),
                "make the tokenizer from a text that has this character, or use the byte tokenizer");
  }

  std::vector<std::uint32_t> codes_;  // sorted; the id is the index
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> char_tokenizer(std::string_view training_text) {
  return std::make_unique<CharTokenizer>(training_text);
}

std::string Tokenizer::fingerprint() const {
  std::string all;
  for (const auto& [name, bytes] : files()) all += cat(name, " ", bytes.size(), "\n", bytes);
  return digest_of(all);
}

}  // namespace zt::text
