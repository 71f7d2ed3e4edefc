// A BPE model as a tokenizer file describes it: from one piece of text to ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/bpe.h"
#include "text/json_fields.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace zt::text {

// Memory that one thread needs while it encodes.
struct EncodeScratch {
  WordCache cache;
  Merger merger;
  Pieces pieces;
  std::vector<std::int32_t> symbols;
};

class BpeModel {
 public:
  // Reads the file's "model" without its vocabulary, which was read before. Faults go to `problems`.
  // `reserved` are ids of special tokens: no content may become one of them.
  BpeModel(const Json& description, const Vocabulary& vocabulary, bool byte_level,
           const std::unordered_set<std::int32_t>& reserved, Problems* problems);

  // Appends the ids of one piece. Throws Error(data) when it has a character without a token.
  void append_ids(std::string_view piece, EncodeScratch* scratch, std::vector<std::int32_t>* out) const;

 private:
  using Reserved = std::unordered_set<std::int32_t>;
  void read_options(const Json& description, const Vocabulary& vocabulary, Problems* problems);
  void read_symbols(const Vocabulary& vocabulary, const Reserved& reserved);
  void read_merges(const Json& merges, const Vocabulary& vocabulary, const Reserved& reserved,
                   Problems* problems);
  void find_joinable(const Vocabulary& vocabulary);
  void append_joinable(const std::string& token);

  std::int32_t symbol_of(std::string_view character) const;
  void append_word(std::string_view word, EncodeScratch* scratch, std::vector<std::int32_t>* out) const;
  void read_word(std::string_view word, std::vector<std::int32_t>* symbols) const;
  void read_character(std::string_view character, bool* after_unknown,
                      std::vector<std::int32_t>* symbols) const;
  void append_unknown(const std::string& what, bool* after_unknown, std::vector<std::int32_t>* symbols) const;

  static constexpr std::int32_t kNone = -1;
  bool byte_level_ = false, byte_fallback_ = false, fuse_unk_ = false, ignore_merges_ = false;
  std::optional<std::int32_t> unk_;
  std::array<std::int32_t, 256>
      byte_symbols_;  // ByteLevel: a byte's token; byte_fallback: the token "<0xXX>"
  std::array<std::int32_t, 128> ascii_symbols_;  // one-character tokens
  std::unordered_map<std::uint32_t, std::int32_t> other_symbols_;
  MergeTable merges_;
  // Pairs of adjacent one-character tokens that some merge can bring into one token. A piece may be cut
  // between any other pair without changing its ids, which turns a document without pre-tokenizer into words.
  bool can_cut_ = false;
  MergeTable joinable_;
  std::unordered_map<std::string, std::int32_t> whole_words_;  // with ignore_merges: pieces that are tokens
};

}  // namespace zt::text
