#include "text/sentencepiece_cutter.h"

#include <algorithm>

#include "text/utf8.h"

namespace zt::text {
namespace {

// The library writes spaces as this mark before it looks for pieces.
constexpr std::uint32_t kSpaceMark = 0x2581;

std::uint32_t character(std::string_view text, std::size_t at) {
  const std::uint32_t code = code_point(text, at);
  return code == ' ' ? kSpaceMark : code;
}

}  // namespace

SentencePieceCutter::SentencePieceCutter(const SentencePieceFile& file)
    : cuts_at_unknown_(file.byte_fallback) {
  using Kind = SentencePieceFile::Kind;
  // How an unused piece is taken apart again depends on the whole text. Sums of a unigram model's scores could
  // be rounded differently in parts.
  can_cut_ = file.is_bpe && std::none_of(file.pieces.begin(), file.pieces.end(),
                                         [](const auto& piece) { return piece.kind == Kind::unused; });
  if (!can_cut_) return;
  for (const auto& [text, kind] : file.pieces) {
    if (kind != Kind::normal && kind != Kind::user_defined) continue;
    if (text.size() == utf8_length(text[0])) known_.insert(character(text, 0));
    for (std::size_t at = utf8_length(text[0]), before = 0; at < text.size(); at += utf8_length(text[at])) {
      neighbours_.set(std::int32_t(character(text, before)), std::int32_t(character(text, at)), {});
      before = at;
    }
  }
}

bool SentencePieceCutter::may_cut(std::uint32_t before, std::uint32_t after) const {
  if (neighbours_.find(std::int32_t(before), std::int32_t(after)) != nullptr) return false;
  // Unknown characters side by side become one unknown token, so they stay together.
  return cuts_at_unknown_ || (known_.contains(before) && known_.contains(after));
}

std::size_t SentencePieceCutter::part_end(std::string_view text, std::size_t from) const {
  if (!can_cut_) return text.size();
  std::uint32_t before = character(text, from);
  std::size_t at = from + utf8_length(text[from]);
  while (at < text.size()) {
    const std::uint32_t now = character(text, at);
    if (may_cut(before, now)) break;
    before = now;
    at += utf8_length(text[at]);
  }
  return at;
}

}  // namespace zt::text
