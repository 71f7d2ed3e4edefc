// All faults of a recipe, each with where it was written.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace zt::recipe {

// Where a value was written: a line of the file (from 1), or an override of the command line, or nowhere.
struct Origin {
  int line = 0;
  std::string set;  // "--set a.b=c", shortened
};

class Faults {
 public:
  void add(const Origin& origin, const std::string& path, const std::string& text) {
    list_.push_back({origin, path, text});
  }
  // Nothing at `path`, above it or below it is faulty, so checks may rely on its value.
  bool sound(const std::string& path) const {
    return std::none_of(list_.begin(), list_.end(), [&](const Fault& fault) {
      return starts_with(fault.path, path) || starts_with(path, fault.path + ".");
    });
  }
  // One Error(usage) with every fault: those of the file by line, then the command line's, then what is
  // missing.
  void throw_if_any() const { throw_if_any("recipe has problems:", hint()); }
  void throw_if_any(const std::string& what, const std::string& advice) const {
    std::vector<Fault> sorted = list_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Fault& a, const Fault& b) { return rank(a) < rank(b); });
    Problems problems;
    for (std::size_t i = 0; i < std::min(sorted.size(), kShown); ++i) problems.add(text(sorted[i]));
    if (sorted.size() > kShown) problems.add(cat("and ", sorted.size() - kShown, " more"));
    problems.throw_if_any(Blame::usage, what, advice);
  }

 private:
  struct Fault {
    Origin origin;
    std::string path, text;
  };
  static constexpr std::size_t kShown = 100;

  static std::int64_t rank(const Fault& fault) {
    if (fault.origin.line > 0) return fault.origin.line;
    return fault.origin.set.empty() ? std::int64_t{1} << 33 : std::int64_t{1} << 32;
  }
  static std::string text(const Fault& fault) {
    if (fault.origin.line > 0) return cat("line ", fault.origin.line, ": ", fault.text);
    return fault.origin.set.empty() ? fault.text : cat(fault.origin.set, ": ", fault.text);
  }
  // Names the section when all faults lie in one.
  std::string hint() const {
    if (list_.empty()) return "";
    const auto section = [](const Fault& fault) { return split(fault.path, '.').front(); };
    const std::string first = section(list_.front());
    const bool same = std::all_of(list_.begin(), list_.end(),
                                  [&](const Fault& f) { return section(f) == first && f.path != first; });
    if (same && !first.empty()) return cat("`zerotrain keys ", first, "` lists every key with its default");
    return "`zerotrain keys` lists every key with its default";
  }

  std::vector<Fault> list_;
};

}  // namespace zt::recipe
