#include "spec/config_reader.h"

#include <cmath>

#include "base/text.h"

namespace zt::spec {
namespace {

// Longer than this and near enough: shorter words are near to each other by chance ("n_embd", "n_head").
constexpr std::size_t kShortestGuess = 8;
constexpr int kFarthestGuess = 2;
// No config has so many; guessing over a hostile one would take minutes.
constexpr std::size_t kMostKeys = 2000;
constexpr std::size_t kLongestKey = 80;

}  // namespace

std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

const nlohmann::json* ConfigReader::find(const std::string& key) {
  asked_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<std::int64_t> ConfigReader::integer(const std::string& key, std::int64_t low,
                                                  std::int64_t high) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    fault(key, cat("must be a whole number, is ", shown(*value)));
    return std::nullopt;
  }
  const bool too_big = value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t(INT64_MAX);
  if (too_big || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
    fault(key, cat("must be between ", low, " and ", high, ", is ", shown(*value)));
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::optional<double> ConfigReader::number(const std::string& key, double low, double high) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fault(key, cat("must be a number, is ", shown(*value)));
    return std::nullopt;
  }
  const double x = value->get<double>();
  if (!(x >= low && x <= high)) {
    fault(key, cat("must be between ", low, " and ", high, ", is ", shown(*value)));
    return std::nullopt;
  }
  return x;
}

std::optional<bool> ConfigReader::flag(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fault(key, cat("must be true or false, is ", shown(*value)));
  return std::nullopt;
}

std::optional<std::string> ConfigReader::word(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fault(key, cat("must be a word, is ", shown(*value)));
  return std::nullopt;
}

int ConfigReader::size(const std::vector<std::string>& keys, std::int64_t high) {
  std::string first;
  std::optional<std::int64_t> size;
  for (const std::string& key : keys) {
    if (!has(key)) continue;
    const std::optional<std::int64_t> value = integer(key, 1, high);
    if (!first.empty() && value && size && *value != *size)
      fault(key, cat("is ", *value, " but ", first, " is ", *size, "; they mean the same"));
    if (first.empty()) {
      first = key;
      size = value;
    }
  }
  if (first.empty()) fault(keys.front(), "is missing");
  return int(size.value_or(0));
}

void ConfigReader::report_misspellings() {
  if (object_.size() > kMostKeys) return;
  for (const auto& [key, value] : object_.items()) {
    if (key.size() < kShortestGuess || key.size() > kLongestKey || asked_.count(key) > 0) continue;
    for (const std::string& known : asked_) {
      if (object_.contains(known) || known.size() < kShortestGuess) continue;
      if (edit_distance(key, known) > kFarthestGuess) continue;
      fault(key, cat("is unknown; did you mean ", known, "?"));
      break;
    }
  }
}

}  // namespace zt::spec
