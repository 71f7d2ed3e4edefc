// A SentencePiece model file (`tokenizer.model`), run by the SentencePiece library.
// Source: Kudo & Richardson 2018, "SentencePiece: A simple and language independent subword tokenizer"; the file's
// form is google/sentencepiece, src/sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace zt::text {

// What the file says, in its own words.
struct SentencePieceFile {
  enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  // the id is the index
  std::optional<std::int32_t> bos, eos, pad;
  bool byte_fallback = false;  // a character without a piece becomes its bytes
  bool adds_prefix = true;     // a space is put where a text begins
  bool is_bpe = false;         // else a unigram model
};

// Throws Error(model) for what is no SentencePiece model or would change ids in a way that is not implemented
// (a normalizer with a table of characters, spaces removed or left as they are, models of words or characters),
// all faults at once.
SentencePieceFile read_sentencepiece_file(std::string_view bytes);

// Whether the bytes are the other thing that is named tokenizer.model: tiktoken's lines of base64 and rank.
bool is_tiktoken_file(std::string_view bytes);

// Turns text into ids with the library. Const methods may be called from several threads at once.
class SentencePieceEncoder {
 public:
  // `control` are ids that no text may become, whatever the file calls them. Throws Error(model).
  SentencePieceEncoder(std::string_view bytes, const std::unordered_set<std::int32_t>& control);
  ~SentencePieceEncoder();
  // Appends the ids of text (valid UTF-8); nothing is put before it.
  void append_ids(std::string_view text, std::vector<std::int32_t>* out) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace zt::text
