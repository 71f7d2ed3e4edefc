#include "text/jinja_text.h"

#include <charconv>

#include "base/text.h"
#include "text/utf8.h"

namespace zt::text::jinja {
namespace {

// The bytes of the last character.
std::size_t last_length(std::string_view text) {
  std::size_t length = 1;
  while ((static_cast<unsigned char>(text[text.size() - length]) & 0xC0) == 0x80) ++length;
  return length;
}

template <typename Unwanted>
std::string_view leading_cut(std::string_view text, Unwanted unwanted) {
  while (!text.empty() && unwanted(text.substr(0, utf8_length(text[0]))))
    text.remove_prefix(utf8_length(text[0]));
  return text;
}

template <typename Unwanted>
std::string_view trailing_cut(std::string_view text, Unwanted unwanted) {
  while (!text.empty() && unwanted(text.substr(text.size() - last_length(text))))
    text.remove_suffix(last_length(text));
  return text;
}

bool space_character(std::string_view character) { return is_space(code_point(character, 0)); }

bool ends_line(std::uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Reads up to `most` digits from the front of *text.
std::uint32_t take_digits(std::string_view* text, int base, std::size_t most, std::size_t* taken) {
  std::uint32_t code = 0;
  for (*taken = 0; *taken < most && !text->empty() && digit_value((*text)[0]) < base; ++*taken) {
    code = code * std::uint32_t(base) + std::uint32_t(digit_value((*text)[0]));
    text->remove_prefix(1);
  }
  return code;
}

// One escape after its backslash. False when it is broken.
bool take_escape(std::string_view* text, std::string* out) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char letter = (*text)[0];
  const std::size_t simple = kLetters.find(letter);
  const std::size_t hex = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  std::size_t taken = 0;
  if (hex == 0 && digit_value(letter) < 8) {
    append_utf8(*out, take_digits(text, 8, 3, &taken));
    return true;
  }
  if (letter == 'N' || static_cast<unsigned char>(letter) >= 0x80) return false;
  text->remove_prefix(1);
  if (hex != 0) {
    const std::uint32_t code = take_digits(text, 16, hex, &taken);
    if (taken != hex || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    append_utf8(*out, code);
  } else if (simple != std::string_view::npos) {
    *out += kMeanings[simple];
  } else if (letter != '\n') {  // an escaped line end is nothing; other escapes stay as they are
    *out += '\\';
    *out += letter;
  }
  return true;
}

}  // namespace

bool is_space(std::uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::string_view without_leading_space(std::string_view text) { return leading_cut(text, space_character); }
std::string_view without_trailing_space(std::string_view text) { return trailing_cut(text, space_character); }

// In UTF-8 a character can be found in a text only where it stands as a character.
std::string_view without_leading(std::string_view text, std::string_view characters) {
  return leading_cut(text, [&](std::string_view c) { return characters.find(c) != std::string_view::npos; });
}
std::string_view without_trailing(std::string_view text, std::string_view characters) {
  return trailing_cut(text, [&](std::string_view c) { return characters.find(c) != std::string_view::npos; });
}

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size(); at += out.back().size())
    out.push_back(text.substr(at, utf8_length(text[at])));
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = at + utf8_length(text[at]);
    if (ends_line(code_point(text, at))) {
      out.push_back(text.substr(begin, at - begin));
      begin = next + (text.substr(at, 2) == "\r\n" ? 1 : 0);
      at = begin;
    } else {
      at = next;
    }
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

bool unescape(std::string_view quoted, std::string* value, std::string* fault) {
  while (!quoted.empty()) {
    const std::size_t backslash = quoted.find('\\');
    value->append(quoted.substr(0, backslash));
    if (backslash == std::string_view::npos) break;
    quoted.remove_prefix(backslash + 1);
    const std::string_view escape = quoted;
    if (!take_escape(&quoted, value)) {
      *fault =
          cat("the escape \\", escape.substr(0, utf8_length(escape[0])), " is broken or not implemented");
      return false;
    }
  }
  return true;
}

std::string python_literal(double value) {
  std::string text = cat(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string python_literal(std::string_view ascii) {
  const bool doubled =
      ascii.find('\'') != std::string_view::npos && ascii.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : ascii) {
    if (c == quote || c == '\\')
      out += cat('\\', c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (c < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", int(c));
    else
      out += c;
  }
  return out + quote;
}

std::string json_literal(std::string_view text) {
  static constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kEscapes = "\"\\nrtfb";
  std::string out = "\"";
  for (const char c : text) {
    const std::size_t special = kSpecial.find(c);
    if (special != std::string_view::npos)
      out += cat('\\', kEscapes[special]);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", int(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace zt::text::jinja
