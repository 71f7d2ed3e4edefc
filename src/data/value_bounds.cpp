#include "data/value_bounds.h"

#include <array>
#include <cstring>

namespace zt::data {
namespace {

constexpr std::array<bool, 256> table_of(std::string_view bytes) {
  std::array<bool, 256> table = {};
  for (const char byte : bytes) table[static_cast<unsigned char>(byte)] = true;
  return table;
}

constexpr auto kNests = table_of("\"{}[]");
constexpr auto kEndsWord = table_of(" \t\r\n,:\"{}[]");

const char* first_of(const std::array<bool, 256>& table, const char* at, const char* end) {
  while (at < end && !table[static_cast<unsigned char>(*at)]) ++at;
  return at;
}

}  // namespace

// A quote ends the string unless an odd number of backslashes stands before it.
const char* ValueBounds::through_string(const char* at, const char* end) {
  const auto* quote = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
  const char* const stop = quote != nullptr ? quote : end;
  const char* run = stop;
  while (run > at && run[-1] == '\\') --run;
  odd_ = ((stop - run) % 2 == 1) != (run == at && odd_);
  if (quote == nullptr) return end;
  in_string_ = odd_;
  odd_ = false;
  return quote + 1;
}

const char* ValueBounds::through_nested(const char* at, const char* end) {
  at = first_of(kNests, at, end);
  if (at == end) return end;
  if (*at == '"') {
    in_string_ = true;
  } else if (*at == '{' || *at == '[') {
    ++depth_;
  } else {
    --depth_;
  }
  return at + 1;
}

std::size_t ValueBounds::feed(std::string_view piece) {
  const char* at = piece.data();
  const char* const end = at + piece.size();
  if (kind_ == Kind::unknown && at < end)
    kind_ = *at == '{' || *at == '[' || *at == '"' ? Kind::nested : Kind::word;
  if (kind_ == Kind::word) {
    at = first_of(kEndsWord, at, end);
    done_ = at < end;
  }
  while (kind_ == Kind::nested && at < end && !done_) {
    at = in_string_ ? through_string(at, end) : through_nested(at, end);
    done_ = !in_string_ && depth_ == 0;
  }
  return static_cast<std::size_t>(at - piece.data());
}

}  // namespace zt::data
