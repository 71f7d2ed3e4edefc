#include "text/jinja_lexer.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace zt::text::jinja {
namespace {

using Type = Token::Type;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Python's universal newlines become \n, and one at the very end is dropped.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool carriage_return = source[i] == '\r';
    if (carriage_return && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    out += carriage_return ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}
  std::vector<Token> run();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return rest().substr(0, text.size()) == text; }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  Place place_of(std::size_t offset);
  void push(Type type, std::size_t begin, std::string text);
  void skip_space() { at_ = source_.size() - without_leading_space(rest()).size(); }

  void read_data();
  std::string_view lstripped(std::string_view data, std::size_t begin, char tag) const;
  void skip_comment();
  void read_tag();
  bool ends(bool print);
  void read_token();
  void read_number();
  void read_word();
  void read_string();
  void read_sign();
  void track_brackets(char sign, std::size_t begin);

  std::string source_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
  std::string open_brackets_;
  std::size_t counted_ = 0;  // where counted_place_ is
  Place counted_place_;
};

Place Lexer::place_of(std::size_t offset) {
  for (; counted_ < offset; ++counted_) {
    if (source_[counted_] == '\n') {
      ++counted_place_.line;
      counted_place_.column = 1;
    } else if ((static_cast<unsigned char>(source_[counted_]) & 0xC0) != 0x80) {
      ++counted_place_.column;
    }
  }
  return counted_place_;
}

void Lexer::push(Type type, std::size_t begin, std::string text) {
  Token token;
  token.type = type;
  token.text = std::move(text);
  token.at = place_of(begin);
  tokens_.push_back(std::move(token));
}

std::vector<Token> Lexer::run() {
  while (at_ < source_.size()) {
    read_data();
    if (at_ >= source_.size()) break;
    if (peek(1) == '#')
      skip_comment();
    else
      read_tag();
  }
  push(Type::end, source_.size(), "");
  return std::move(tokens_);
}

// Text up to the next tag, without the white space that the tag's own opening removes.
void Lexer::read_data() {
  const std::size_t begin = at_;
  while (at_ < source_.size() && !(peek() == '{' && (peek(1) == '%' || peek(1) == '{' || peek(1) == '#')))
    ++at_;
  std::string_view data = std::string_view(source_).substr(begin, at_ - begin);
  if (at_ < source_.size()) {
    if (peek(2) == '-')
      data = without_trailing_space(data);
    else if (peek(2) != '+')
      data = lstripped(data, begin, peek(1));
  }
  if (!data.empty()) push(Type::data, begin, std::string(data));
}

// lstrip_blocks: nothing but white space between the start of the line and a tag goes away.
std::string_view Lexer::lstripped(std::string_view data, std::size_t begin, char tag) const {
  if (tag == '{') return data;
  const std::size_t line = data.rfind('\n') + 1;  // npos + 1 is 0
  if (line == 0 && begin != 0 && source_[begin - 1] != '\n') return data;
  return without_leading_space(data.substr(line)).empty() ? data.substr(0, line) : data;
}

void Lexer::skip_comment() {
  const std::size_t begin = at_;
  const std::size_t body = at_ + (peek(2) == '-' || peek(2) == '+' ? 3 : 2);
  const std::size_t end = source_.find("#}", body);
  if (end == std::string::npos) refuse(place_of(begin), "this comment is never closed with #}");
  const char before = end > body ? source_[end - 1] : ' ';
  at_ = end + 2;
  if (before == '-')
    skip_space();
  else if (before != '+' && peek() == '\n')
    ++at_;
}

void Lexer::read_tag() {
  const bool print = peek(1) == '{';
  const std::size_t begin = at_;
  push(print ? Type::print_begin : Type::tag_begin, begin, print ? "{{" : "{%");
  const Place opened = tokens_.back().at;
  const char control = peek(2);
  at_ += control == '-' || control == '+' ? 3 : 2;
  open_brackets_.clear();
  for (;;) {
    skip_space();
    if (at_ >= source_.size()) refuse(opened, cat("this tag is never closed with ", print ? "}}" : "%}"));
    if (open_brackets_.empty() && ends(print)) return;
    read_token();
  }
}

// Reads the end of a tag, if it stands here, and the white space that it removes.
bool Lexer::ends(bool print) {
  const char* close = print ? "}}" : "%}";
  const bool minus = peek() == '-', plus = !print && peek() == '+';
  const std::size_t begin = at_;
  if (rest().substr(minus || plus ? 1 : 0, 2) != close) return false;
  at_ += minus || plus ? 3 : 2;
  push(print ? Type::print_end : Type::tag_end, begin, close);
  if (minus)
    skip_space();
  else if (!plus && !print && peek() == '\n')
    ++at_;
  return true;
}

void Lexer::read_token() {
  if (is_digit(peek())) return read_number();
  if (starts_word(peek())) return read_word();
  if (peek() == '\'' || peek() == '"') return read_string();
  read_sign();
}

void Lexer::read_number() {
  const std::size_t begin = at_;
  const bool after_dot = begin > 0 && source_[begin - 1] == '.';  // x.0.1 has two integers
  while (is_digit(peek())) ++at_;
  bool real = false;
  if (!after_dot && peek() == '.' && is_digit(peek(1))) {
    real = true;
    for (++at_; is_digit(peek()); ++at_) {
    }
  }
  const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
  if (!after_dot && (peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
    real = true;
    for (at_ += 1 + sign; is_digit(peek()); ++at_) {
    }
  }
  const std::string digits = source_.substr(begin, at_ - begin);
  const bool leading_zero = !real && digits.size() > 1 && digits[0] == '0';
  if (leading_zero || peek() == '_' || (digits == "0" && std::string_view("xXoObB").find(peek()) < 6))
    refuse(place_of(begin), "only plain decimal numbers are implemented");
  push(real ? Type::real : Type::integer, begin, digits);
  const bool good = real ? parse_double(digits, &tokens_.back().real) && std::isfinite(tokens_.back().real)
                         : parse_int(digits, &tokens_.back().integer);
  if (!good) refuse(tokens_.back().at, cat("the number ", digits, " is too large"));
}

void Lexer::read_word() {
  const std::size_t begin = at_;
  while (starts_word(peek()) || is_digit(peek())) ++at_;
  push(Type::name, begin, source_.substr(begin, at_ - begin));
}

void Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = source_[at_++];
  while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
  if (at_ >= source_.size()) refuse(place_of(begin), "this string is never closed");
  const Place at = place_of(begin);
  push(Type::text, begin, "");
  std::string fault;
  if (!unescape(std::string_view(source_).substr(begin + 1, at_ - begin - 1), &tokens_.back().text, &fault))
    refuse(at, fault);
  ++at_;
}

void Lexer::read_sign() {
  static constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                ">",  "<",  "=",  ".",  ":",  "|",  ","};
  for (const std::string_view sign : kSigns) {
    if (!looking_at(sign)) continue;
    track_brackets(sign[0], at_);
    push(Type::sign, at_, std::string(sign));
    at_ += sign.size();
    return;
  }
  refuse(place_of(at_),
         cat("unexpected character ", describe_character(rest().substr(0, utf8_length(peek())))));
}

// Inside brackets `}}` and `%}` close no tag.
void Lexer::track_brackets(char sign, std::size_t begin) {
  if (sign == '(') open_brackets_ += ')';
  if (sign == '[') open_brackets_ += ']';
  if (sign == '{') open_brackets_ += '}';
  if (sign != ')' && sign != ']' && sign != '}') return;
  if (open_brackets_.empty()) refuse(place_of(begin), cat("unexpected '", sign, "'"));
  if (open_brackets_.back() != sign)
    refuse(place_of(begin), cat("unexpected '", sign, "', expected '", open_brackets_.back(), "'"));
  open_brackets_.pop_back();
}

}  // namespace

void refuse(const Place& at, const std::string& fault) {
  throw Error(Blame::model, cat("chat template, line ", at.line, ", column ", at.column, ": ", fault));
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(with_plain_newlines(source)).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case Type::end: return "the end of the template";
    case Type::data: return "text";
    case Type::text: return "a string";
    default: return cat("'", token.text, "'");
  }
}

}  // namespace zt::text::jinja
