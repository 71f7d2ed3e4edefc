#include "recipe/recipe.h"

#include "base/file.h"
#include "recipe/checks.h"
#include "recipe/overrides.h"
#include "recipe/table.h"

namespace zt::recipe {

std::string Loaded::source_of(const std::string& path) const {
  const auto found = sources.find(path);
  return found == sources.end() ? "default" : found->second;
}

Loaded parse(const std::string& text, const std::string& filename, const std::vector<std::string>& sets,
             int ranks) {
  if (ranks < 1) throw Error(Blame::bug, cat("recipe::parse for ", ranks, " ranks"));
  Faults faults;
  std::map<std::string, Origin> origins;
  Node root = parse_tree(text);
  apply_overrides(sets, root, faults);
  if (root.is_null()) faults.add({}, "", "the recipe is empty");

  Loaded loaded;
  read_section(sections(), root, {"", faults, origins}, loaded.recipe);
  derive_defaults(filename, ranks, origins, loaded.recipe);
  if (root.is_map()) check_between_keys(loaded.recipe, ranks, origins, faults);
  faults.throw_if_any();

  for (const auto& [path, origin] : origins)
    loaded.sources[path] = origin.line > 0 ? cat(filename, ":", origin.line) : "command line";
  return loaded;
}

Loaded load(const std::filesystem::path& path, const std::vector<std::string>& sets, int ranks) {
  return parse(read_text_file(path, Blame::usage, kMaxRecipeBytes), path.string(), sets, ranks);
}

}  // namespace zt::recipe
