#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "base/text.h"

namespace zt::text {
namespace {

constexpr std::size_t kJitStackLimit = std::size_t{64} << 20;
constexpr std::size_t kPatternLimit = 1 << 16;

// Scratch memory of one thread, for all patterns: only the whole match is ever asked for.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStackLimit, nullptr);
  Scratch() {
    if (data == nullptr || context == nullptr || stack == nullptr)
      throw Error(Blame::machine, "out of memory for the regular expression engine");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

std::string engine_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

[[noreturn]] void refuse(const std::string& pattern, std::size_t at, const std::string& why) {
  throw Error(Blame::model, cat("regular expression ", pattern, " at offset ", at, ": ", why));
}

// Oniguruma to PCRE2. Walks the pattern once, copies what both read alike, and refuses the rest.
std::string translated(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  std::size_t class_start = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      // U+180E is a space to PCRE2 but not to Unicode since 6.3, nor to Oniguruma.
      if (next == 's' || next == 'S') {
        out += next == 's' ? "\\p{wspace}" : "\\P{wspace}";
      } else if (std::string_view("pPdDrntf").find(next) != std::string_view::npos ||
                 (next != '\0' && !std::isalnum(static_cast<unsigned char>(next)))) {
        out += c;
        out += next;
      } else {
        refuse(pattern, i, cat("escape \\", next, " is not supported"));
      }
      ++i;
      // The braces of \p{L} are part of the escape.
      if ((next == 'p' || next == 'P') && i + 1 < pattern.size() && pattern[i + 1] == '{')
        while (i + 1 < pattern.size() && pattern[i] != '}') out += pattern[++i];
    } else if (in_class) {
      if (c == '[') refuse(pattern, i, "a set inside a set is not supported");
      if (c == '&' && next == '&') refuse(pattern, i, "intersection of sets is not supported");
      // A `]` right after the opening is read differently; both would need an escape to be clear.
      if (c == ']' && (i == class_start + 1 || (i == class_start + 2 && pattern[i - 1] == '^')))
        refuse(pattern, i, "an empty set is not supported");
      if (c == ']') in_class = false;
      out += c;
    } else {
      if (c == '}' && next == '+') refuse(pattern, i, "`}+` means different things to different engines");
      if (c == '(' && next == '?') {
        const char kind = i + 2 < pattern.size() ? pattern[i + 2] : '\0';
        if (std::string_view(":=!i<>").find(kind) == std::string_view::npos)
          refuse(pattern, i, cat("group (?", kind, " is not supported"));
      }
      if (c == '[') {
        in_class = true;
        class_start = i;
      }
      out += c;
    }
  }
  return out;
}

}  // namespace

struct Regex::Compiled {
  std::string pattern;
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kPatternLimit)
    throw Error(Blame::model, cat("a regular expression of ", pattern.size(), " bytes is over the limit of ",
                                  kPatternLimit));
  compiled_->pattern = pattern;
  const std::string ours = translated(pattern);
  int fault = 0;
  PCRE2_SIZE offset = 0;
  // In the files' dialect ^ and $ match at every line.
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(ours.data()), ours.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &fault, &offset, nullptr);
  if (compiled_->code == nullptr) refuse(pattern, offset, engine_text(fault));
  compiled_->jit = pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

bool Regex::find(std::string_view text, std::size_t from, Match* match) const {
  Scratch& mine = scratch();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  // The text was checked once as a whole; a check at every call would make long texts quadratic.
  const int count = compiled_->jit ? pcre2_jit_match(compiled_->code, subject, text.size(), from, 0,
                                                     mine.data, mine.context)
                                   : pcre2_match(compiled_->code, subject, text.size(), from,
                                                 PCRE2_NO_UTF_CHECK, mine.data, mine.context);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0)
    throw Error(Blame::data,
                cat("regular expression ", compiled_->pattern, " gave up at offset ", from, " of a text of ",
                    text.size(), " bytes: ", engine_text(count)),
                "split the document; no natural text needs this much");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(mine.data);
  *match = {bounds[0], bounds[1]};
  return true;
}

std::string quoted_for_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace zt::text
