#include "spec/freeze.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace zt::spec {
namespace {

// Greedy with one place to come back to: linear for patterns with one star, never worse than quadratic.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + std::ptrdiff_t(p), pattern.end(), [](char c) { return c == '*'; });
}

}  // namespace

void freeze(ModelSpec& model, const std::vector<std::string>& patterns) {
  Problems problems;
  std::vector<std::string> names;
  for (const BlockSpec& block : model.blocks)
    for (const TensorSpec& tensor : block.tensors) names.push_back(tensor.name);
  for (const std::string& pattern : patterns) {
    bool used = false;
    for (BlockSpec& block : model.blocks)
      for (TensorSpec& tensor : block.tensors) {
        if (!matches(tensor.name, pattern)) continue;
        tensor.trainable = false;
        used = true;
      }
    if (used) continue;
    const std::string near = nearest(pattern, names);
    problems.add(cat("train.freeze: no tensor matches '", pattern.substr(0, 100), "'",
                     near.empty() ? "" : cat("; did you mean ", near, "?")));
  }
  if (problems.empty() && std::ranges::none_of(model.blocks, &BlockSpec::trainable))
    problems.add("train.freeze matches every tensor: nothing is left to train");
  problems.throw_if_any(Blame::usage, "the recipe freezes what it can't:");
}

}  // namespace zt::spec
