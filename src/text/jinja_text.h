// Python's ideas about text that templates can see: white space, escapes, literals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zt::text::jinja {

// All texts here are valid UTF-8; positions and lengths are in characters unless they say bytes.

// str.isspace of one character.
bool is_space(std::uint32_t code);
std::string_view without_leading_space(std::string_view text);
std::string_view without_trailing_space(std::string_view text);
// str.strip and its halves with a set of characters.
std::string_view without_leading(std::string_view text, std::string_view characters);
std::string_view without_trailing(std::string_view text, std::string_view characters);

std::size_t character_count(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);

// str.splitlines.
std::vector<std::string_view> lines_of(std::string_view text);

// The value of a string literal's inside; false with the fault for escapes that are broken or have no UTF-8.
bool unescape(std::string_view quoted, std::string* value, std::string* fault);

// repr of a float, and of a str of ASCII characters.
std::string python_literal(double value);
std::string python_literal(std::string_view ascii);
// json.dumps(text, ensure_ascii=False)
std::string json_literal(std::string_view text);

}  // namespace zt::text::jinja
