// Regular expressions of tokenizer files, run by PCRE2 with Unicode properties and its just-in-time compiler.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace zt::text {

struct Match {
  std::size_t begin = 0, end = 0;
};

// The files are written for Oniguruma. What both engines read alike is accepted (and `\s`, `\S`, which differ
// at U+180E, are translated); a construct that they could read differently is refused by name. Thread-safe:
// finding is const and uses the calling thread's own scratch memory.
class Regex {
 public:
  // Throws Error(model) that names the pattern and the fault.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The first match at or after `from`. The text must be valid UTF-8. False when there is none.
  // Throws Error(data) when the engine gives up (its limits on steps or memory).
  bool find(std::string_view text, std::size_t from, Match* match) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The pattern that matches exactly this text.
std::string quoted_for_regex(std::string_view text);

}  // namespace zt::text
