// Cuts a template into text, tags and the tokens inside tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zt::text::jinja {

struct Place {
  int line = 1, column = 1;  // both from 1; columns count characters
};

// Throws Error(model) that names the place in the template.
[[noreturn]] void refuse(const Place& at, const std::string& fault);

struct Token {
  enum class Type { data, print_begin, print_end, tag_begin, tag_end, name, text, integer, real, sign, end };
  Type type = Type::end;
  std::string text;  // data after white space control; names and signs as spelled; strings unescaped
  Place at;
  std::int64_t integer = 0;
  double real = 0;

  bool is_sign(std::string_view sign) const { return type == Type::sign && text == sign; }
  bool is_name(std::string_view name) const { return type == Type::name && text == name; }
};

// The last token is `end`. White space around tags is removed as `-`, `+`, trim_blocks and lstrip_blocks say.
std::vector<Token> tokenize(std::string_view source);

// For messages: what a person sees at that token.
std::string describe(const Token& token);

}  // namespace zt::text::jinja
