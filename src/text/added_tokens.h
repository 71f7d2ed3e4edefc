// Tokens that are looked for in the text itself, before any splitting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace zt::text {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // swallows white space after it
  bool normalized = false;   // looked for in the normalized text, in its own normalized form
  bool special = false;      // control token: never found in content
};

// A part of a text: an added token, or text between them.
struct Segment {
  std::string_view text;
  std::optional<std::int32_t> id;
};

// Finds added tokens from left to right, the longest first at each place.
class AddedTokenFinder {
 public:
  // `spelling`: how the token is spelled in the texts that will be searched. Empty spellings are never found.
  void add(const AddedToken& token, const std::string& spelling);
  bool empty() const { return tokens_.empty(); }
  // The segments of the text, in order; text segments are never empty.
  std::vector<Segment> segments(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at, std::size_t* length) const;

  struct Node {
    std::int32_t token = -1;
  };
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::unordered_map<std::uint64_t, std::int32_t> children_;  // node and byte to node
  bool starts_[256] = {};
};

}  // namespace zt::text
