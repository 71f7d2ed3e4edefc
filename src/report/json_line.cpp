#include "report/json_line.h"

#include <charconv>
#include <limits>

namespace zt::report {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool string(std::string_view* inside) {
    if (!take('"')) return false;
    const std::size_t from = at_;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\')
        ++at_;
      else if (text_[at_] == '"')
        return *inside = text_.substr(from, at_++ - from), true;
    }
    return false;
  }
  bool number(double* value) {
    const char* const from = text_.data() + at_;
    const auto [to, error] = std::from_chars(from, text_.data() + text_.size(), *value);
    if (to == from) return false;
    if (error == std::errc::result_out_of_range) *value = std::numeric_limits<double>::quiet_NaN();
    at_ += static_cast<std::size_t>(to - from);
    return true;
  }
  // Over a list or an object, whose brackets must come out.
  bool skip_nested() {
    int depth = 0;
    std::string_view ignored;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!string(&ignored)) return false;
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return false;
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool done() {
    blanks();
    return at_ == text_.size();
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool each_number(std::string_view line,
                 const std::function<void(std::string_view key, double value)>& found) {
  Scanner in(line);
  if (!in.take('{')) return false;
  if (in.take('}')) return in.done();
  do {
    std::string_view key, ignored;
    if (!in.string(&key) || !in.take(':')) return false;
    const char next = in.peek();
    double value = std::numeric_limits<double>::quiet_NaN();
    if (next == '"') {
      if (!in.string(&ignored)) return false;
    } else if (next == '{' || next == '[') {
      if (!in.skip_nested()) return false;
    } else if (in.word("true")) {
      found(key, 1);
    } else if (in.word("false")) {
      found(key, 0);
    } else if (in.word("null")) {
      found(key, value);
    } else if (in.number(&value)) {
      found(key, value);
    } else {
      return false;
    }
  } while (in.take(','));
  return in.take('}') && in.done();
}

}  // namespace zt::report
