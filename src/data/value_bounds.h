// Where a JSON value ends, found by its quotes and brackets alone.
#pragma once

#include <cstddef>
#include <string_view>

namespace zt::data {

// Walks over one value in pieces of any size. What is inside is not checked: brackets only have to balance, of
// whichever kind, and a word or number goes on to the next blank, comma, quote or bracket.
class ValueBounds {
 public:
  // The number of bytes of `piece` that belong to the value; fewer than all only when it ends inside.
  std::size_t feed(std::string_view piece);
  bool done() const { return done_; }
  // Whether the value, if nothing followed, would be whole: a word or a number has no end of its own.
  bool open_ended() const { return kind_ == Kind::word; }

 private:
  enum class Kind { unknown, word, nested };
  const char* through_string(const char* at, const char* end);
  const char* through_nested(const char* at, const char* end);

  Kind kind_ = Kind::unknown;
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool odd_ = false;  // the bytes before this piece end in an odd number of backslashes
  bool done_ = false;
};

}  // namespace zt::data
