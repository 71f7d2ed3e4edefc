// YAML as a tree of scalars kept as they were written, lists and maps. Types are given later, by the key
// tables.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recipe/faults.h"

namespace zt::recipe {

struct Entry;

struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  Origin origin;
  std::string text;     // of a scalar
  bool quoted = false;  // a quoted scalar is text, whatever it looks like
  std::vector<Node> items;
  std::vector<Entry> entries;  // in written order; a key that is written twice stands here twice

  bool is_map() const { return kind == Kind::map; }
  bool is_list() const { return kind == Kind::list; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_null() const { return kind == Kind::null; }
};

struct Entry {
  std::string key;
  Origin origin;
  Node value;
};

// Bounds on a recipe, so that a hostile one costs neither time nor memory: nesting, and values after aliases
// (`*a`) and merges (`<<`) are written out.
constexpr int kMaxDepth = 32;
constexpr int kMaxValues = 100'000;
constexpr std::size_t kMaxExpandedBytes = 32'000'000;

// Parses one YAML document; an empty one gives null. Throws Error(usage) at the first fault of syntax, with
// line and column. Every node gets `set` as its origin when that isn't empty (then the lines mean nothing).
Node parse_tree(const std::string& text, const std::string& set = "");

// At most `limit` bytes of a text, cut between characters and ending in "...".
std::string shortened(const std::string& text, std::size_t limit);

// How a fault names a value: "-1", "'no'", "a list", "a section", "empty".
std::string describe(const Node& node);

// Free-form values by the core rules of YAML 1.2: integers, numbers, true/false, null, text. Faults are added
// for repeated keys and for numbers JSON can't hold.
nlohmann::json core_value(const Node& node, const std::string& path, Faults& faults);

}  // namespace zt::recipe
