#include "report/recipes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace zt::report {
namespace {

// Aliases can make a short text walk for ever, or nest in itself.
class Values {
 public:
  void add(const YAML::Node& node, const std::string& path, int depth = 0) {
    constexpr int kDeepest = 32, kMostNodes = 100'000;
    if (depth > kDeepest || ++nodes_ > kMostNodes) return;
    if (node.IsMap()) {
      for (const auto& member : node)
        add(member.second, path.empty() ? member.first.Scalar() : path + "." + member.first.Scalar(),
            depth + 1);
    } else if (node.IsSequence()) {
      std::size_t i = 0;
      for (const auto& item : node) add(item, cat(path, "[", i++, "]"), depth + 1);
    } else {
      all_[path] = node.IsScalar() ? node.Scalar() : "null";
    }
  }
  std::map<std::string, std::string> all() && { return std::move(all_); }

 private:
  std::map<std::string, std::string> all_;
  int nodes_ = 0;
};

}  // namespace

std::map<std::string, std::string> recipe_values(const std::string& text) {
  try {
    Values values;
    values.add(YAML::Load(text), "");
    return std::move(values).all();
  } catch (const YAML::Exception&) {
    return {};
  }
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
