// Cuts text where no piece of a SentencePiece model can reach across.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "text/bpe.h"
#include "text/sentencepiece_model.h"

namespace zt::text {

// The ids of the parts, one after the other, are the ids of the text: byte pair encoding only ever joins
// neighbours into a piece, so two characters that stand side by side in no piece are never joined. It turns a
// document into words, whose ids can be remembered, and bounds what the library is given at once.
class SentencePieceCutter {
 public:
  explicit SentencePieceCutter(const SentencePieceFile& file);
  // Where the part ends that begins at `from` (valid UTF-8, not its end).
  std::size_t part_end(std::string_view text, std::size_t from) const;

 private:
  bool may_cut(std::uint32_t before, std::uint32_t after) const;

  bool can_cut_ = false, cuts_at_unknown_ = false;
  MergeTable neighbours_;                    // by code point; the entries mean nothing
  std::unordered_set<std::uint32_t> known_;  // characters that are pieces
};

}  // namespace zt::text
