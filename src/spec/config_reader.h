// Typed reading of one JSON object: every wrong value becomes a problem with its key, and reading goes on.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace zt::spec {

// A value for an error message: short whatever it is, never deep.
std::string shown(const nlohmann::json& value);

class ConfigReader {
 public:
  // `path` stands before each key in messages: "" or "rope_scaling.".
  ConfigReader(const nlohmann::json& object, std::string path, Problems& problems)
      : object_(object), path_(std::move(path)), problems_(problems) {}

  // null counts as absent, as for Hugging Face.
  const nlohmann::json* find(const std::string& key);
  bool has(const std::string& key) { return find(key) != nullptr; }
  // Null counts as written.
  bool written(const std::string& key) const { return object_.contains(key); }

  // Bounds include their ends. A wrong value is reported once and read as absent.
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::optional<double> number(const std::string& key, double low, double high);
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string> word(const std::string& key);

  // Absent is a problem. The first name is the one asked for; the others are synonyms that must agree with
  // it. After a problem the answer is 0.
  int size(const std::vector<std::string>& keys, std::int64_t high);

  void fault(const std::string& key, const std::string& what) { problems_.add(path_ + key + " " + what); }

  // Reports each key that nobody asked for and that is a likely misspelling of an absent one that somebody
  // did.
  void report_misspellings();

 private:
  const nlohmann::json& object_;
  std::string path_;
  Problems& problems_;
  std::set<std::string> asked_;
};

}  // namespace zt::spec
