// What the recipe tests share.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "recipe/recipe.h"
#include "support/paths.h"

namespace zt::recipe {

// The shortest recipe there is.
inline const std::string kSmall =
    "model: {config: {model_type: gpt2, n_positions: 2048}}\n"
    "tokenizer: {type: byte}\n"
    "data: {train: [{path: a.txt}]}\n"
    "train: {max_steps: 100}\n";

// The error text of a recipe, or "no error".
inline std::string error_of(const std::string& text, const std::vector<std::string>& sets = {},
                            int ranks = 1) {
  try {
    parse(text, "r.yaml", sets, ranks);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    return e.what();
  }
  return "no error";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<std::filesystem::path> shipped_recipes() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "recipes"))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  return paths;
}

}  // namespace zt::recipe
