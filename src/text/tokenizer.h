// Text to token ids and back: bytes, characters, Hugging Face `tokenizer.json` files of the BPE family, and
// SentencePiece models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zt::text {

// Every method is const and may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of content. A special token's text in it is ordinary text: nobody can smuggle a control token in
  // through data. No BOS or EOS is added. Throws Error(data) for text that is not UTF-8 (the byte tokenizer
  // takes any bytes) or that has a character the tokenizer has no token for.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // The ids of content that goes on after other ids: as encode, but without the space ("▁") that some
  // tokenizers put where a text begins. encode(a) followed by encode_continuation(b) decodes to a + b where
  // the tokenizer is lossless, and no token spans the joint.
  virtual std::vector<std::int32_t> encode_continuation(std::string_view text) const { return encode(text); }
  // The ids of raw text in which special tokens mean themselves, each with the flags the file gives it
  // (special, normalized, lstrip, rstrip, single_word). No BOS or EOS is added. Errors as encode.
  virtual std::vector<std::int32_t> encode_with_specials(std::string_view text) const = 0;
  // The text of ids; special tokens appear as their own text. decode(encode(x)) == x where the tokenizer is
  // lossless. Throws Error(data) for an id that no token has.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  // Highest id that can come out, plus one: a model needs at least so many embedding rows.
  virtual std::int32_t vocabulary() const = 0;
  virtual std::optional<std::int32_t> bos() const = 0;
  virtual std::optional<std::int32_t> eos() const = 0;
  virtual std::optional<std::int32_t> pad() const = 0;
  // Whether the tokenizer's own files ask for BOS before, or EOS after, a sequence. The caller adds them.
  virtual bool adds_bos() const = 0;
  virtual bool adds_eos() const = 0;

  // By the token as the file spells it ("Ġthe", "<0x0A>", "</s>"). `token` is "" for an id that no token has.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  virtual std::string token(std::int32_t id) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;

  // What an exported model folder needs: name and bytes of each file. A tokenizer that came from a folder
  // gives that folder's files unchanged.
  virtual std::vector<std::pair<std::string, std::string>> files() const = 0;

  // Changes whenever ids could change; for keys of token caches.
  std::string fingerprint() const;
};

// Id = byte value; then <bos> 256, <eos> 257, <pad> 258, <|im_start|> 259, <|im_end|> 260 and three reserved
// ids.
std::unique_ptr<Tokenizer> byte_tokenizer();

// One id for each distinct code point of the training text, in code point order; no special tokens. Throws
// Error(data) when the text is not UTF-8 or is empty.
// Source: nanoGPT, data/shakespeare_char/prepare.py.
std::unique_ptr<Tokenizer> char_tokenizer(std::string_view training_text);

// Reads a Hugging Face folder: tokenizer.json, or else a SentencePiece model (tokenizer.model, or as Mistral
// names it tokenizer.model.v3 or .v1), or else vocab.json with merges.txt (GPT-2's older form), and beside it tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json where they exist.
// Anything in the files that would change ids and is not implemented is refused by name: Error(model), all
// faults at once.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& dir);

}  // namespace zt::text
