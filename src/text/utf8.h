// UTF-8 by hand: the few steps a tokenizer's inner loop needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zt::text {

// Offset of the first byte that starts no valid UTF-8 character, or nothing when all are valid.
// Source: RFC 3629 section 4 (no overlong forms, no surrogates, nothing above U+10FFFF).
std::optional<std::size_t> first_invalid_utf8(std::string_view text);
// Throws Error(data) with offset and line when the text is not UTF-8.
void require_utf8(std::string_view text);

bool is_ascii(std::string_view text);

// Length in bytes of the character that starts with this byte. The text must be valid.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// The code point that starts at `at`. The text must be valid.
std::uint32_t code_point(std::string_view text, std::size_t at);
void append_utf8(std::string& out, std::uint32_t code);

// For people: 'x' (U+0078).
std::string describe_character(std::string_view utf8_character);

}  // namespace zt::text
