// Small text helpers.
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zt {

// Joins anything fmt can print: cat("rank ", 3, " of ", 8).
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (fmt::format_to(std::back_inserter(out), "{}", parts), ...);
  return out;
}

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);

// Number of single-character insertions, deletions and substitutions that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);
// The candidate nearest to `word`, or "" when none is near enough to be a likely typing error.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Strict parsing of the whole text; false when it is anything else (also on overflow).
bool parse_int(std::string_view text, std::int64_t* value);
bool parse_double(std::string_view text, double* value);

// "1,234,567".
std::string with_commas(std::int64_t value);
// "1.50 GiB", "12 B".
std::string human_bytes(std::int64_t bytes);
// "2h 03m 04s", "12.3 s".
std::string human_seconds(double seconds);

}  // namespace zt
