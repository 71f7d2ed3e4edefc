// Random Unicode text: what people write, and what they never would.
#pragma once

#include <array>
#include <random>
#include <string>

#include "text/utf8.h"

namespace zt::text {

// Ranges of code points; each is drawn equally often, whatever its size.
inline std::uint32_t random_code_point(std::mt19937* random) {
  struct Range {
    std::uint32_t first, last;
  };
  static constexpr std::array<Range, 22> kRanges = {
      {{' ', ' '},         {'a', 'z'},         {'A', 'Z'},       {'0', '9'},       {'!', '/'},
       {0, 0x1F},          {0x7F, 0xFF},       {0x100, 0x24F},   {0x300, 0x36F},   {0x370, 0x52F},
       {0x590, 0x6FF},     {0x900, 0xDFF},     {0x1100, 0x11FF}, {0x1680, 0x1680}, {0x2000, 0x206F},
       {0x2070, 0x2BFF},   {0x3000, 0x30FF},   {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xE000, 0xFFFF},
       {0x10000, 0x1FFFF}, {0x20000, 0x10FFFF}}};
  const Range range = kRanges[(*random)() % kRanges.size()];
  return range.first + (*random)() % (range.last - range.first + 1);
}

// Up to `longest` characters, with runs of one kind and repeated characters among them.
inline std::string random_text(std::mt19937* random, std::size_t longest) {
  std::string text;
  const std::size_t length = (*random)() % (longest + 1);
  std::uint32_t code = ' ';
  for (std::size_t i = 0; i < length; ++i) {
    const std::uint32_t choice = (*random)() % 8;
    if (choice == 0) append_utf8(text, code);  // again
    if (choice == 1) text += "'ll 's 're\r\n\n  \t 'T 1234"[(*random)() % 23];
    if (choice <= 1) continue;
    code = choice < 5 ? 'a' + (*random)() % 26 : random_code_point(random);
    append_utf8(text, code);
  }
  return text;
}

inline std::string without(std::string text, const std::string& what) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
  return text;
}

}  // namespace zt::text
