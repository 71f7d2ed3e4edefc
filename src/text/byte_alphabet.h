// GPT-2's way of writing bytes as printable characters, used by every ByteLevel tokenizer file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zt::text {

// The UTF-8 character that stands for each byte: printable Latin-1 characters stand for themselves, the other
// 68 bytes for U+0100, U+0101, ... in byte order. The space becomes "Ġ". Source: openai/gpt-2,
// src/encoder.py, bytes_to_unicode.
const std::array<std::string, 256>& byte_alphabet();

// The bytes that a text in the alphabet stands for; nothing when a character is not of the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace zt::text
