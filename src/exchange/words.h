// Texts from files, made fit to be shown in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace zt::exchange {

// The text in quotes, control characters replaced, long ones cut.
std::string shown(std::string_view text);
// A message of the JSON library without its prefix, one line, cut.
std::string shown_json_error(const char* what);

// Collects faults of one file, of which a person wants to see the first ones and the number of the others.
class Faults {
 public:
  void add(std::string fault);
  bool empty() const { return count_ == 0; }
  void throw_if_any(const std::string& title, const std::string& hint) const;

 private:
  static constexpr std::size_t kShown = 20;
  Problems shown_;
  std::size_t count_ = 0;
};

}  // namespace zt::exchange
