// How each C++ type of the settings is read from a tree, printed, and described.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "recipe/settings.h"
#include "recipe/tree.h"
#include "recipe/words.h"

namespace zt::recipe {

// Where the reader stands: the full path, and where faults and origins go.
struct At {
  std::string path;
  Faults& faults;
  std::map<std::string, Origin>& origins;

  At below(const std::string& key) const {
    return {path.empty() ? key : cat(path, ".", key), faults, origins};
  }
  At item(std::size_t i) const { return {cat(path, "[", i, "]"), faults, origins}; }

  // Notes where the value, and all values inside it, were written.
  void record(const Node& node, const Origin& origin) const {
    origins[path] = origin;
    for (std::size_t i = 0; i < node.items.size(); ++i) item(i).record(node.items[i], node.items[i].origin);
    for (const Entry& entry : node.entries) below(entry.key).record(entry.value, entry.origin);
  }
  // Adds "PATH must be WANTED, is ...".
  bool refuse(const Node& node, const std::string& wanted) const {
    faults.add(node.origin, path, cat(path, " must be ", wanted, ", is ", describe(node)));
    return false;
  }
};

// A number as people write it: 5, 0.1, 1e-05.
std::string number_text(double x);

// T needs: type() for people, read() (false after adding a fault), to_json(), schema() without default.
template <typename T>
struct Codec;

template <>
struct Codec<std::int64_t> {
  static std::string type() { return "whole number"; }
  static bool read(const Node& node, const At& at, std::int64_t& value);
  static nlohmann::ordered_json to_json(std::int64_t value) { return value; }
  static nlohmann::ordered_json schema() { return {{"type", "integer"}}; }
};

template <>
struct Codec<double> {
  static std::string type() { return "number"; }
  static bool read(const Node& node, const At& at, double& value);
  static nlohmann::ordered_json to_json(double value) { return value; }
  static nlohmann::ordered_json schema() { return {{"type", "number"}}; }
};

template <>
struct Codec<bool> {
  static std::string type() { return "true or false"; }
  static bool read(const Node& node, const At& at, bool& value);
  static nlohmann::ordered_json to_json(bool value) { return value; }
  static nlohmann::ordered_json schema() { return {{"type", "boolean"}}; }
};

template <>
struct Codec<std::string> {
  static std::string type() { return "text"; }
  static bool read(const Node& node, const At& at, std::string& value);
  static nlohmann::ordered_json to_json(const std::string& value) { return value; }
  static nlohmann::ordered_json schema() { return {{"type", "string"}, {"minLength", 1}}; }
};

// "a, b or c".
std::string alternatives(const std::vector<std::string>& words);
// Words that YAML editors take for booleans appear in the schema as booleans.
nlohmann::ordered_json word_json(const std::string& word);

template <typename E>
  requires std::is_enum_v<E>
struct Codec<E> {
  static std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (const Word<E>& word : words(E{})) out.push_back(word.text);
    return out;
  }
  static std::string type() { return alternatives(texts()); }
  static bool read(const Node& node, const At& at, E& value) {
    for (const Word<E>& word : words(E{})) {
      if (!node.is_scalar() && !(node.is_null() && std::string(word.text) == "null")) continue;
      if (node.text == word.text) return value = word.value, true;
    }
    return at.refuse(node, type());
  }
  static nlohmann::ordered_json to_json(E value) { return word_json(word_of(value)); }
  static nlohmann::ordered_json schema() {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const std::string& text : texts()) list.push_back(word_json(text));
    return {{"enum", list}};
  }
};

template <typename T>
struct Codec<std::optional<T>> {
  static std::string type() { return Codec<T>::type() + ", or null"; }
  static bool read(const Node& node, const At& at, std::optional<T>& value) {
    if (node.is_null()) return value.reset(), true;
    T inner{};
    if (!Codec<T>::read(node, at, inner)) return false;
    value = std::move(inner);
    return true;
  }
  static nlohmann::ordered_json to_json(const std::optional<T>& value) {
    return value ? Codec<T>::to_json(*value) : nlohmann::ordered_json(nullptr);
  }
  static nlohmann::ordered_json schema() {
    nlohmann::ordered_json schema = Codec<T>::schema();
    if (schema.contains("enum")) {
      schema["enum"].push_back(nullptr);
    } else {
      schema["type"] = {schema["type"], "null"};
    }
    return schema;
  }
};

template <>
struct Codec<std::array<double, 2>> {
  static std::string type() { return "list of two numbers"; }
  static bool read(const Node& node, const At& at, std::array<double, 2>& value);
  static nlohmann::ordered_json to_json(const std::array<double, 2>& value) { return value; }
  static nlohmann::ordered_json schema() {
    return {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}};
  }
};

template <>
struct Codec<std::vector<std::string>> {
  static std::string type() { return "list of texts"; }
  static bool read(const Node& node, const At& at, std::vector<std::string>& value);
  static nlohmann::ordered_json to_json(const std::vector<std::string>& value) { return value; }
  static nlohmann::ordered_json schema() {
    return {{"type", "array"}, {"items", Codec<std::string>::schema()}};
  }
};

template <>
struct Codec<std::map<std::string, std::string>> {
  static std::string type() { return "section of names"; }
  static bool read(const Node& node, const At& at, std::map<std::string, std::string>& value);
  static nlohmann::ordered_json to_json(const std::map<std::string, std::string>& value) { return value; }
  static nlohmann::ordered_json schema() {
    return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  }
};

// A free-form section, typed by YAML's core rules.
template <>
struct Codec<nlohmann::json> {
  static std::string type() { return "section of Hugging Face config.json names, or null"; }
  static bool read(const Node& node, const At& at, nlohmann::json& value);
  static nlohmann::ordered_json to_json(const nlohmann::json& value) { return value; }
  static nlohmann::ordered_json schema() { return {{"type", {"object", "null"}}}; }
};

template <>
struct Codec<std::vector<Source>> {
  static std::string type() { return "list of sources"; }
  static bool read(const Node& node, const At& at, std::vector<Source>& value);
  static nlohmann::ordered_json to_json(const std::vector<Source>& value);
  static nlohmann::ordered_json schema();
};

template <>
struct Codec<Validation> {
  static std::string type() { return "{fraction: x}, a list of sources, or null"; }
  static bool read(const Node& node, const At& at, Validation& value);
  static nlohmann::ordered_json to_json(const Validation& value);
  static nlohmann::ordered_json schema();
};

template <>
struct Codec<Recompute> {
  static std::string type() { return Codec<Recompute::Kind>::type() + ", or {every: k}"; }
  static bool read(const Node& node, const At& at, Recompute& value);
  static nlohmann::ordered_json to_json(const Recompute& value);
  static nlohmann::ordered_json schema();
};

template <>
struct Codec<TimeLimit> {
  static std::string type() { return "auto, none, a number of seconds, or [days-]hours:minutes:seconds"; }
  static bool read(const Node& node, const At& at, TimeLimit& value);
  static nlohmann::ordered_json to_json(const TimeLimit& value);
  static nlohmann::ordered_json schema();
};

// Calls f with each number that checks apply to.
template <typename T, typename F>
void for_each_number(const T&, F) {}
template <typename F>
void for_each_number(const std::int64_t& value, F f) {
  f(double(value));
}
template <typename F>
void for_each_number(const double& value, F f) {
  f(value);
}
template <typename T, typename F>
void for_each_number(const std::optional<T>& value, F f) {
  if (value) for_each_number(*value, f);
}
template <typename F>
void for_each_number(const std::array<double, 2>& value, F f) {
  for (const double x : value) f(x);
}

}  // namespace zt::recipe
