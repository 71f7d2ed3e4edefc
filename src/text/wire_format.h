// Protocol Buffers' wire format: walking the fields of a message, which is all that a SentencePiece model needs.
// Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zt::text {

struct WireField {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // of a number or flag; 0 for others
  std::string_view bytes;   // of a text or message; empty for others
  std::string_view whole;   // the field as it stands in the message
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}
  // The next field, or nothing at the end. Throws Error(model) for what is no message.
  std::optional<WireField> next();

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t bytes);
  std::string_view rest_;
};

// One field with bytes as it stands in a message. Fields may be appended to a message: a later number or flag
// overrides an earlier one, and messages of one field are merged.
std::string wire_field(std::uint32_t number, std::string_view bytes);
std::string wire_field(std::uint32_t number, std::uint64_t value);

}  // namespace zt::text
