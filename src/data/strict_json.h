// One JSON value with the places of its parts, read with suspicion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zt::data {

// A value and where it stands: bytes [begin, end) of the parsed text.
struct JsonValue {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool flag = false;  // of a boolean
  double number = 0;  // of a number
  std::uint32_t begin = 0, end = 0;
  std::string text;               // of a string: UTF-8, without escapes
  std::vector<std::string> keys;  // of an object: the names of its items, in the order of the text
  std::vector<JsonValue> items;   // of an array or an object

  bool is(Kind wanted) const { return kind == wanted; }
  const JsonValue* find(std::string_view key) const;  // null when it isn't there
};

const char* name(JsonValue::Kind kind);  // "null", "a boolean", "a number", "a string", "a list", "an object"

struct JsonFault {
  std::size_t offset = 0;  // of the byte at fault
  std::string reason;
};

constexpr int kMaxDepth = 64;                 // levels of nesting
constexpr std::int64_t kMaxValues = 1 << 19;  // values in one text: what bounds the memory

// Parses exactly one JSON value (RFC 8259) of less than 4 GiB. False with a fault for anything else: bytes that
// aren't UTF-8, lone surrogates, NaN, numbers beyond double, NUL bytes, byte-order marks, a key twice in one
// object, more than kMaxDepth levels or kMaxValues values, something behind the value.
bool parse_strict_json(std::string_view text, JsonValue* value, JsonFault* fault);

// Text of people's data for a message: at most `limit` bytes, control characters and bytes that aren't UTF-8 escaped.
std::string shown(std::string_view text, std::size_t limit = 40);

}  // namespace zt::data
