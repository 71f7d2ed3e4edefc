// One row per key. A row reads its value from the tree, prints it, and describes it for people and for
// editors.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "recipe/codec.h"
#include "recipe/names.h"
#include "recipe/tree.h"

namespace zt::recipe {

// A condition on the number (or on each of the numbers) a key holds.
struct Check {
  std::string text;  // "at least 0", as in "must be at least 0"
  std::function<bool(double)> holds;
  nlohmann::ordered_json schema;
};

inline Check at_least(std::int64_t low) {
  return {cat("at least ", low), [=](double x) { return x >= double(low); }, {{"minimum", low}}};
}
inline Check above(double low) {
  return {cat("above ", low), [=](double x) { return x > low; }, {{"exclusiveMinimum", low}}};
}
inline Check between(std::int64_t low, std::int64_t high) {
  return {cat("between ", low, " and ", high),
          [=](double x) { return x >= double(low) && x <= double(high); },
          {{"minimum", low}, {"maximum", high}}};
}
// low < x <= high.
inline Check above_up_to(std::int64_t low, std::int64_t high) {
  return {cat("above ", low, " and at most ", high),
          [=](double x) { return x > double(low) && x <= double(high); },
          {{"exclusiveMinimum", low}, {"maximum", high}}};
}
inline Check power_of_two() {
  return {"a power of two",
          [](double x) {
            int exponent;
            return x > 0 && std::frexp(x, &exponent) == 0.5;
          },
          nlohmann::ordered_json::object()};
}
// 0 <= x < 1.
inline Check share_below_one() {
  return {"at least 0 and below 1",
          [](double x) { return x >= 0 && x < 1; },
          {{"minimum", 0}, {"exclusiveMaximum", 1}}};
}
// 0 < x < 1.
inline Check share_inside() {
  return {"above 0 and below 1",
          [](double x) { return x > 0 && x < 1; },
          {{"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}}};
}

template <typename S>
struct Key {
  std::string name, unit, meaning;
  std::string type;          // "whole number, at least 0"
  std::string default_text;  // of a key whose default depends on other keys
  std::function<void(const Node&, const At&, S&)> read;
  std::function<nlohmann::ordered_json(const S&)> value;
  std::function<nlohmann::ordered_json()> schema;

  // The default isn't a constant; `text` says what it is.
  Key follows(std::string text) && {
    default_text = std::move(text);
    return std::move(*this);
  }
};

// Reads one value and applies its checks; a faulty value leaves the default in place.
template <typename T>
bool read_checked(const Node& node, const At& at, const std::vector<Check>& checks, T& target) {
  if (node.is_scalar() && comes_later(at.path, node.text)) {
    at.faults.add(node.origin, at.path, cat(at.path, ": ", node.text, " is not available in this version"));
    return false;
  }
  T value = target;
  if (!Codec<T>::read(node, at, value)) return false;
  bool good = true;
  for (const Check& check : checks)
    for_each_number(value, [&](double x) {
      if (!check.holds(x) && std::exchange(good, false))
        at.faults.add(node.origin, at.path, cat(at.path, " must be ", check.text, ", is ", number_text(x)));
    });
  if (good) target = std::move(value);
  return good;
}

template <typename S, typename T>
Key<S> key(std::string name, T S::* member, std::string unit, std::string meaning,
           std::vector<Check> checks = {}) {
  Key<S> row{std::move(name), std::move(unit), std::move(meaning), Codec<T>::type(), "", {}, {}, {}};
  for (const Check& check : checks) row.type += ", " + check.text;
  row.read = [=](const Node& node, const At& at, S& section) {
    read_checked(node, at, checks, section.*member);
  };
  row.value = [=](const S& section) { return Codec<T>::to_json(section.*member); };
  row.schema = [=] {
    nlohmann::ordered_json schema = Codec<T>::schema();
    nlohmann::ordered_json& target = schema.contains("items") ? schema["items"] : schema;
    for (const Check& check : checks) target.update(check.schema);
    return schema;
  };
  return row;
}

template <typename S, typename T>
Key<S> key(std::string name, T S::* member, std::string unit, std::string meaning, Check check) {
  return key(std::move(name), member, std::move(unit), std::move(meaning),
             std::vector<Check>{std::move(check)});
}

template <typename K>
std::vector<std::string> names_of(const std::vector<K>& keys) {
  std::vector<std::string> names;
  for (const K& row : keys) names.push_back(row.name);
  return names;
}

// Reads a section by its table. An empty section keeps the defaults.
template <typename K, typename S>
bool read_section(const std::vector<K>& keys, const Node& node, const At& at, S& section) {
  if (node.is_null()) return true;
  if (!node.is_map()) {
    const std::string what = at.path.empty() ? "a recipe" : at.path;
    at.faults.add(node.origin, at.path,
                  cat(what, " must be a section with keys among ", join(names_of(keys), ", "), "; is ",
                      describe(node)));
    return false;
  }
  std::map<std::string, Origin> seen;
  for (const Entry& entry : node.entries) {
    const At below = at.below(entry.key);
    if (const auto [first, fresh] = seen.emplace(entry.key, entry.origin); !fresh) {
      const std::string where =
          first->second.line > 0 ? cat(" (first on line ", first->second.line, ")") : "";
      at.faults.add(entry.origin, below.path, cat("key '", below.path, "' is given twice", where));
      continue;
    }
    const auto row = std::find_if(keys.begin(), keys.end(), [&](const K& k) { return k.name == entry.key; });
    if (row != keys.end()) {
      below.record(entry.value, entry.origin);
      row->read(entry.value, below, section);
    } else if (comes_later(below.path)) {
      at.faults.add(entry.origin, below.path, cat(below.path, " is not available in this version"));
    } else {
      at.faults.add(entry.origin, below.path, unknown_key(below.path, names_of(keys)));
    }
  }
  return true;
}

template <typename K, typename S>
nlohmann::ordered_json section_json(const std::vector<K>& keys, const S& section) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const K& row : keys) out[row.name] = row.value(section);
  return out;
}

template <typename K, typename S>
nlohmann::ordered_json section_schema(const std::vector<K>& keys, const S& defaults) {
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  for (const K& row : keys) {
    nlohmann::ordered_json property = row.schema();
    property["description"] = row.unit.empty() ? row.meaning : cat(row.meaning, " Unit: ", row.unit, ".");
    if (row.default_text.empty()) property["default"] = row.value(defaults);
    properties[row.name] = std::move(property);
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

// What people read about a key.
struct RowText {
  std::string name, unit, meaning, type, default_text;
};

// A section is a key of the recipe whose value has a table of its own.
struct Section : Key<Recipe> {
  std::vector<RowText> rows;
};

const std::vector<Section>& sections();

// The keys of one source of data.train or data.validation.
const std::vector<Key<Source>>& source_keys();

}  // namespace zt::recipe
