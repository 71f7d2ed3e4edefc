// Recipes: YAML text to checked settings, and what the key tables print about themselves. Opens no file but
// the recipe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recipe/settings.h"

namespace zt::recipe {

// A checked recipe, and where each value that isn't a default came from: full path ("data.train[0].path") to
// "FILE:LINE" or "command line".
struct Loaded {
  Recipe recipe;
  std::map<std::string, std::string> sources;

  // "default", "FILE:LINE" or "command line".
  std::string source_of(const std::string& path) const;
};

// Recipes above this size are refused unread, in bytes.
constexpr std::int64_t kMaxRecipeBytes = 10'000'000;

// Reads and checks a recipe. `sets` are "a.b=value" overrides, the value in YAML; list entries are written
// "data.train[0].path=x". `ranks` is the number of ranks that share the global batch.
// Throws Error(usage) that lists every problem by line: "recipe has problems:\n  line 3: ...".
Loaded load(const std::filesystem::path& path, const std::vector<std::string>& sets = {}, int ranks = 1);

// The same for text; `filename` is what sources and the default run.name are called after.
Loaded parse(const std::string& text, const std::string& filename, const std::vector<std::string>& sets = {},
             int ranks = 1);

// The whole recipe as YAML, each value with its source as a comment. Parsing it again gives an equal Recipe.
std::string resolved_text(const Loaded& loaded);

// Every key of a section (or of all, for "") with default and meaning, for a terminal. Throws Error(usage)
// for an unknown section, naming the nearest.
std::string keys_text(const std::string& section = "");

// JSON Schema, draft 2020-12, for editors.
nlohmann::ordered_json schema();
// The values of one section as JSON, by their names in a recipe.
nlohmann::ordered_json values_of(const Recipe& recipe, const std::string& section);

// docs/keys.md.
std::string manual_markdown();

}  // namespace zt::recipe
