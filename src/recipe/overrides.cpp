#include "recipe/overrides.h"

#include <algorithm>

namespace zt::recipe {
namespace {

// "data.train[0].path" -> data, train, [0], path.
std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> steps;
  for (const std::string& part : split(path, '.')) {
    std::size_t bracket = part.find('[');
    steps.push_back(part.substr(0, bracket));
    while (bracket != std::string::npos) {
      const std::size_t next = part.find('[', bracket + 1);
      steps.push_back(part.substr(bracket, next == std::string::npos ? next : next - bracket));
      bracket = next;
    }
  }
  return steps;
}

// The list entry a step such as "[1]" names; one past the end appends. Null when it names none.
Node* item_at(Node& list, const std::string& step) {
  std::int64_t index = -1;
  if (step.back() != ']' || !parse_int(step.substr(1, step.size() - 2), &index)) return nullptr;
  if (index < 0 || index > static_cast<std::int64_t>(list.items.size())) return nullptr;
  if (index == static_cast<std::int64_t>(list.items.size())) list.items.emplace_back();
  return &list.items[static_cast<std::size_t>(index)];
}

Node* value_of(Node& map, const std::string& key, const Origin& origin) {
  for (Entry& entry : map.entries)
    if (entry.key == key) return &entry.value;
  map.entries.push_back({key, origin, {}});
  return &map.entries.back().value;
}

// One step down, making sections and lists on the way; null when the tree has something else there.
Node* step_down(Node& from, const std::string& step, const Origin& origin) {
  if (step.empty()) return nullptr;
  const bool list = step.front() == '[';
  if (from.is_null()) {
    from.kind = list ? Node::Kind::list : Node::Kind::map;
    from.origin = origin;
  }
  if (list) return from.is_list() ? item_at(from, step) : nullptr;
  return from.is_map() ? value_of(from, step, origin) : nullptr;
}

// The entry that holds the value now comes from the command line.
void mark_entry(Node& parent, const Node* value, const Origin& origin) {
  for (Entry& entry : parent.entries)
    if (&entry.value == value) entry.origin = origin;
}

void apply_one(const std::string& set, Node& root, Faults& faults) {
  const std::size_t equals = set.find('=');
  const std::string path = set.substr(0, equals);
  const Origin origin{0, cat("--set ", shortened(path, 60))};
  if (equals == std::string::npos || path.empty()) {
    faults.add(origin, "", "an override is written section.key=value");
    return;
  }
  const std::vector<std::string> steps = steps_of(path);
  if (static_cast<int>(steps.size()) > kMaxDepth) {
    faults.add(origin, "", cat("the key has ", steps.size(), " parts; at most ", kMaxDepth, " are read"));
    return;
  }
  Node value = parse_tree(set.substr(equals + 1), origin.set);
  Node *parent = nullptr, *at = &root;
  std::string walked;
  for (const std::string& step : steps) {
    parent = at;
    at = step_down(*parent, step, origin);
    if (at == nullptr) {
      faults.add(origin, walked,
                 walked.empty() ? cat("'", step, "' names no key")
                                : cat(walked, " is ", describe(*parent), " and has no '", step, "'"));
      return;
    }
    walked += (walked.empty() || step.front() == '[' ? "" : ".") + step;
  }
  *at = std::move(value);
  at->origin = origin;
  mark_entry(*parent, at, origin);
}

}  // namespace

void apply_overrides(const std::vector<std::string>& sets, Node& root, Faults& faults) {
  for (const std::string& set : sets) apply_one(set, root, faults);
}

}  // namespace zt::recipe
