#include "text/added_tokens.h"

#include "text/regex.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

std::uint64_t edge(std::int32_t node, char byte) {
  return std::uint64_t(node) << 8 | static_cast<unsigned char>(byte);
}

std::size_t previous_character(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

// Whether the character at `at` matches.
bool is_at(const Regex& character, std::string_view text, std::size_t at) {
  Match match;
  return character.find(text.substr(at, utf8_length(text[at])), 0, &match);
}

const Regex& word_character() {
  static const Regex regex("[\\p{alpha}\\p{M}\\p{Nd}\\p{Pc}\\p{joinc}]");
  return regex;
}

const Regex& white_space() {
  static const Regex regex("\\s");
  return regex;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_at(word_character(), text, previous_character(text, begin))) return false;
  return end == text.size() || !is_at(word_character(), text, end);
}

std::size_t without_space_before(std::string_view text, std::size_t at) {
  for (std::size_t before; at > 0; at = before) {
    before = previous_character(text, at);
    if (!is_at(white_space(), text, before)) break;
  }
  return at;
}

std::size_t without_space_after(std::string_view text, std::size_t at) {
  while (at < text.size() && is_at(white_space(), text, at)) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return at;
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token, const std::string& spelling) {
  if (spelling.empty()) return;
  std::int32_t node = 0;
  for (const char byte : spelling) {
    const auto [child, fresh] = children_.emplace(edge(node, byte), std::int32_t(nodes_.size()));
    if (fresh) nodes_.emplace_back();
    node = child->second;
  }
  starts_[static_cast<unsigned char>(spelling[0])] = true;
  nodes_[std::size_t(node)].token = std::int32_t(tokens_.size());
  tokens_.push_back(token);
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, std::size_t at,
                                               std::size_t* length) const {
  const AddedToken* longest = nullptr;
  std::int32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto child = children_.find(edge(node, text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (nodes_[std::size_t(node)].token < 0) continue;
    longest = &tokens_[std::size_t(nodes_[std::size_t(node)].token)];
    *length = i + 1 - at;
  }
  return longest;
}

std::vector<Segment> AddedTokenFinder::segments(std::string_view text) const {
  std::vector<Segment> found;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const AddedToken* token =
        starts_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, &length) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + length;
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    // White space that the token before has swallowed is gone.
    if (token->lstrip) begin = without_space_before(text, begin);
    if (begin < done) begin = done;
    if (token->rstrip) end = without_space_after(text, end);
    if (end < done) continue;
    if (begin > done) found.push_back({text.substr(done, begin - done), std::nullopt});
    found.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) found.push_back({text.substr(done), std::nullopt});
  return found;
}

}  // namespace zt::text
