#include "text/bpe_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace zt::text {

BpeModel::BpeModel(const Json& description, const Vocabulary& vocabulary, bool byte_level,
                   const Reserved& reserved, Problems* problems)
    : byte_level_(byte_level) {
  read_options(description, vocabulary, problems);
  read_symbols(vocabulary, reserved);
  if (present(description, "merges")) read_merges(description["merges"], vocabulary, reserved, problems);
  find_joinable(vocabulary);
}

void BpeModel::read_options(const Json& description, const Vocabulary& vocabulary, Problems* problems) {
  const std::string where = "model";
  try {
    allow_only(description,
               {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                "byte_fallback", "ignore_merges", "vocab", "merges"},
               where);
    if (present(description, "dropout") && description["dropout"] != 0)
      problems->add("model.dropout is not supported: ids would be random");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_or(description, affix, "", where).empty())
        problems->add(cat("model.", affix, " is not supported"));
    byte_fallback_ = flag_or(description, "byte_fallback", false, where);
    fuse_unk_ = flag_or(description, "fuse_unk", false, where);
    ignore_merges_ = flag_or(description, "ignore_merges", false, where);
    const std::string unk = text_or(description, "unk_token", "", where);
    unk_ = unk.empty() ? std::nullopt : vocabulary.id_of(unk);
    if (!unk.empty() && !unk_) problems->add(cat("model.unk_token '", unk, "' is not in the vocabulary"));
  } catch (const Error& e) {
    problems->add(e.problem());
  }
}

void BpeModel::read_symbols(const Vocabulary& vocabulary, const Reserved& reserved) {
  byte_symbols_.fill(kNone);
  ascii_symbols_.fill(kNone);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::string name = byte_level_ ? byte_alphabet()[byte] : fmt::format("<0x{:02X}>", byte);
    if (byte_level_ || byte_fallback_) byte_symbols_[byte] = vocabulary.id_of(name).value_or(kNone);
  }
  vocabulary.for_each([&](const std::string& token, std::int32_t id) {
    if (reserved.contains(id)) return;
    if (ignore_merges_) {
      if (!byte_level_)
        whole_words_.emplace(token, id);
      else if (auto bytes = bytes_of_alphabet(token))
        whole_words_.emplace(std::move(*bytes), id);
    }
    if (byte_level_ || token.empty() || token.size() != utf8_length(token[0])) return;
    const std::uint32_t code = code_point(token, 0);
    if (code < ascii_symbols_.size())
      ascii_symbols_[code] = id;
    else
      other_symbols_.emplace(code, id);
  });
}

namespace {

constexpr std::size_t kMostListed = 8;

// "a b" (older form) or ["a", "b"] (newer, for pieces with spaces).
std::optional<std::pair<std::string, std::string>> merge_pair(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair{merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (!merge.is_string()) return std::nullopt;
  const auto& line = merge.get_ref<const std::string&>();
  const std::size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) return std::nullopt;
  return std::pair{line.substr(0, space), line.substr(space + 1)};
}

}  // namespace

void BpeModel::read_merges(const Json& merges, const Vocabulary& vocabulary, const Reserved& reserved,
                           Problems* problems) {
  if (!merges.is_array()) return problems->add("model.merges must be a list");
  merges_ = MergeTable(merges.size());
  std::size_t faults = 0;
  const auto fault = [&](std::int32_t rank, const std::string& what) {
    if (++faults <= kMostListed)
      problems->add(cat("model.merges[", rank, "] ", merges[std::size_t(rank)].dump(), ": ", what));
  };
  for (std::int32_t rank = 0; rank < std::int32_t(merges.size()); ++rank) {
    const auto pair = merge_pair(merges[std::size_t(rank)]);
    if (!pair) {
      fault(rank, "must be two tokens, as [\"a\", \"b\"] or \"a b\"");
      continue;
    }
    const auto left = vocabulary.id_of(pair->first), right = vocabulary.id_of(pair->second),
               merged = vocabulary.id_of(pair->first + pair->second);
    if (!left) fault(rank, cat("'", pair->first, "' is not in the vocabulary"));
    if (!right) fault(rank, cat("'", pair->second, "' is not in the vocabulary"));
    if (!merged) fault(rank, cat("'", pair->first + pair->second, "' is not in the vocabulary"));
    // Text may not become a control token by merging, either.
    if (left && right && merged && !reserved.contains(*merged)) merges_.set(*left, *right, {rank, *merged});
  }
  if (faults > kMostListed) problems->add(cat("and ", faults - kMostListed, " more faults in model.merges"));
}

void BpeModel::find_joinable(const Vocabulary& vocabulary) {
  if (byte_level_ || ignore_merges_) return;
  can_cut_ = true;
  const auto is_byte_or_unknown = [&](std::int32_t id) {
    return (unk_ && id == *unk_) ||
           std::find(byte_symbols_.begin(), byte_symbols_.end(), id) != byte_symbols_.end();
  };
  merges_.for_each([&](std::int32_t left, std::int32_t right, MergeTable::Entry entry) {
    // Such tokens come from characters that are not spelled in them, so spelling says nothing about what they
    // join.
    if (is_byte_or_unknown(left) || is_byte_or_unknown(right)) can_cut_ = false;
    append_joinable(*vocabulary.token(entry.merged));
  });
}

void BpeModel::append_joinable(const std::string& token) {
  std::int32_t before = kNone;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t length = utf8_length(token[at]);
    const std::int32_t now = symbol_of(std::string_view(token).substr(at, length));
    if (before != kNone && now != kNone) joinable_.set(before, now, {});
    before = now;
    at += length;
  }
}

std::int32_t BpeModel::symbol_of(std::string_view character) const {
  const std::uint32_t code = code_point(character, 0);
  if (code < ascii_symbols_.size()) return ascii_symbols_[code];
  const auto found = other_symbols_.find(code);
  return found == other_symbols_.end() ? kNone : found->second;
}

void BpeModel::append_ids(std::string_view piece, EncodeScratch* scratch,
                          std::vector<std::int32_t>* out) const {
  if (!can_cut_) return append_word(piece, scratch, out);
  std::size_t begin = 0;
  std::int32_t before = kNone;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = utf8_length(piece[at]);
    const std::int32_t now = symbol_of(piece.substr(at, length));
    // Unknown characters next to each other may have to be fused, so they stay together.
    const bool both_known = before != kNone && now != kNone;
    if (both_known && joinable_.find(before, now) == nullptr) {
      append_word(piece.substr(begin, at - begin), scratch, out);
      begin = at;
    }
    before = now;
    at += length;
  }
  append_word(piece.substr(begin), scratch, out);
}

void BpeModel::append_word(std::string_view word, EncodeScratch* scratch,
                           std::vector<std::int32_t>* out) const {
  if (word.empty() || scratch->cache.append_ids(word, out)) return;
  std::vector<std::int32_t>& symbols = scratch->symbols;
  symbols.clear();
  const auto whole = ignore_merges_ ? whole_words_.find(std::string(word)) : whole_words_.end();
  if (whole != whole_words_.end()) {
    symbols.push_back(whole->second);
  } else {
    read_word(word, &symbols);
    scratch->merger.apply(merges_, &symbols);
  }
  out->insert(out->end(), symbols.begin(), symbols.end());
  scratch->cache.keep(word, symbols);
}

void BpeModel::read_word(std::string_view word, std::vector<std::int32_t>* symbols) const {
  bool after_unknown = false;
  if (byte_level_) {
    for (const char byte : word) {
      const std::int32_t id = byte_symbols_[static_cast<unsigned char>(byte)];
      if (id != kNone)
        symbols->push_back(id), after_unknown = false;
      else
        append_unknown(fmt::format("byte 0x{:02X}", static_cast<unsigned char>(byte)), &after_unknown,
                       symbols);
    }
    return;
  }
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = utf8_length(word[at]);
    read_character(word.substr(at, length), &after_unknown, symbols);
    at += length;
  }
}

// A character without a token becomes its bytes as a whole, or the unknown token as a whole.
void BpeModel::read_character(std::string_view character, bool* after_unknown,
                              std::vector<std::int32_t>* symbols) const {
  const std::int32_t id = symbol_of(character);
  const auto byte_id = [&](char byte) { return byte_symbols_[static_cast<unsigned char>(byte)]; };
  if (id != kNone) {
    symbols->push_back(id);
  } else if (byte_fallback_ &&
             std::all_of(character.begin(), character.end(), [&](char b) { return byte_id(b) != kNone; })) {
    for (const char byte : character) symbols->push_back(byte_id(byte));
  } else {
    return append_unknown(describe_character(character), after_unknown, symbols);
  }
  *after_unknown = false;
}

void BpeModel::append_unknown(const std::string& what, bool* after_unknown,
                              std::vector<std::int32_t>* symbols) const {
  if (!unk_)
    throw Error(Blame::data, cat("the tokenizer has no token for ", what, ", and no unknown token"),
                "remove it from the text, or choose a tokenizer that covers all bytes");
  if (!fuse_unk_ || !*after_unknown) symbols->push_back(*unk_);
  *after_unknown = true;
}

}  // namespace zt::text
