#include "report/recipes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace zt::report {
namespace {

void add_values(const YAML::Node& node, const std::string& path, int depth,
                std::map<std::string, std::string>* out) {
  constexpr int kDeepest = 32;
  if (depth > kDeepest) return;
  if (node.IsMap()) {
    for (const auto& member : node)
      add_values(member.second, path.empty() ? member.first.Scalar() : path + "." + member.first.Scalar(),
                 depth + 1, out);
  } else if (node.IsSequence()) {
    for (std::size_t i = 0; i < node.size(); ++i) add_values(node[i], cat(path, "[", i, "]"), depth + 1, out);
  } else {
    (*out)[path] = node.IsScalar() ? node.Scalar() : "null";
  }
}

}  // namespace

std::map<std::string, std::string> recipe_values(const std::string& text) {
  std::map<std::string, std::string> out;
  try {
    add_values(YAML::Load(text), "", 0, &out);
  } catch (const YAML::Exception&) {
    out.clear();
  }
  return out;
}

plan::PageTable recipe_differences(const std::vector<Run>& runs) {
  plan::PageTable table{"Where they differ", {"key"}, {}, false, ""};
  std::vector<std::map<std::string, std::string>> all;
  std::set<std::string> keys;
  for (const Run& run : runs) {
    table.columns.push_back(run.name);
    all.push_back(recipe_values(run.recipe));
    for (const auto& [key, value] : all.back()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const auto& values : all) row.push_back(values.contains(key) ? values.at(key) : "");
    if (std::adjacent_find(row.begin() + 1, row.end(), std::not_equal_to<>()) != row.end())
      table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) table.note = "In no key.";
  return table;
}

}  // namespace zt::report
