// The second step of a tokenizer file: text is cut into pieces that no token crosses.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_fields.h"
#include "text/place.h"

namespace zt::text {

// Pieces of one text in order. They point into the text, or into `owned` where a step rewrote them.
struct Pieces {
  std::vector<std::string_view> list;
  std::deque<std::string> owned;
};

class PreTokenizer {
 public:
  // Takes the file's "pre_tokenizer": null, or ByteLevel, Split, Digits, Metaspace, Whitespace,
  // WhitespaceSplit, Punctuation or a Sequence of these, in which ByteLevel comes last. Throws Error(model)
  // for any other, by name.
  static PreTokenizer from_json(const Json& description);

  // Cuts `text` (valid UTF-8). The first piece of a continuation gets no space put before it.
  void apply(std::string_view text, Place place, Pieces* pieces) const;
  // Pieces are bytes, each a symbol of its own, written in the GPT-2 alphabet in the vocabulary.
  bool byte_level() const { return byte_level_; }

 private:
  using Step = std::function<void(Pieces*, Place)>;
  void add(const Json& description, const std::string& where, int depth);
  void add_split(const std::string& pattern, const std::string& behavior, bool invert,
                 const std::string& where);
  void add_byte_level(const Json& description, const std::string& where);
  void add_metaspace(const Json& description, const std::string& where);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace zt::text
