#include "text/utf8.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/plain_text.h"
#include "base/text.h"

namespace zt::text {
namespace {

// Length of the ASCII run at `at`, eight bytes at a time.
std::size_t ascii_run(std::string_view text, std::size_t at) {
  std::size_t end = at;
  for (std::uint64_t word; end + sizeof word <= text.size(); end += sizeof word) {
    std::memcpy(&word, text.data() + end, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - at;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    at += ascii_run(text, at);
    if (at == text.size()) break;
    const std::size_t length = valid_utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text) {
  const auto fault = first_invalid_utf8(text);
  if (!fault) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(*fault), '\n');
  throw Error(
      Blame::data,
      cat("text is not UTF-8: byte ", fmt::format("0x{:02X}", static_cast<unsigned char>(text[*fault])),
          " at offset ", *fault, " (line ", line, ")"),
      "convert it first, e.g. with `iconv -f LATIN1 -t UTF-8`; the byte tokenizer takes any bytes");
}

bool is_ascii(std::string_view text) { return ascii_run(text, 0) == text.size(); }

std::uint32_t code_point(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[at + i])}; };
  switch (utf8_length(text[at])) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string describe_character(std::string_view utf8_character) {
  const std::uint32_t code = code_point(utf8_character, 0);
  const std::string shown = code < 0x20 || code == 0x7F ? "control character" : cat("'", utf8_character, "'");
  return cat(shown, fmt::format(" (U+{:04X})", code));
}

}  // namespace zt::text
