#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace zt::text {
namespace {

constexpr std::uint32_t kAlphabetEnd = 0x144;  // 256 + 68 remapped bytes

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

std::array<std::uint32_t, 256> code_of_byte() {
  std::array<std::uint32_t, 256> codes{};
  std::uint32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    codes[std::size_t(byte)] = stands_for_itself(byte) ? std::uint32_t(byte) : next++;
  return codes;
}

std::array<int, kAlphabetEnd> byte_of_code() {
  std::array<int, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  const auto codes = code_of_byte();
  for (int byte = 0; byte < 256; ++byte) bytes[codes[std::size_t(byte)]] = byte;
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() {
  static const auto alphabet = [] {
    std::array<std::string, 256> made;
    const auto codes = code_of_byte();
    for (std::size_t byte = 0; byte < 256; ++byte) append_utf8(made[byte], codes[byte]);
    return made;
  }();
  return alphabet;
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  static const auto bytes = byte_of_code();
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const std::uint32_t code = code_point(text, at);
    if (code >= kAlphabetEnd || bytes[code] < 0) return std::nullopt;
    out += static_cast<char>(bytes[code]);
  }
  return out;
}

}  // namespace zt::text
