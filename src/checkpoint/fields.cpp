#include "checkpoint/fields.h"

#include <cmath>

#include "base/text.h"

namespace zt::checkpoint {
namespace {

using nlohmann::json;

// Bounded: a value may be megabytes long.
std::string brief(const json& value) {
  if (value.is_object() || value.is_array()) return cat("an ", value.type_name());
  return exchange::shown(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

bool whole_number(const json& json, std::int64_t* value) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
    return false;
  *value = json.get<std::int64_t>();
  return true;
}

Fields::Fields(const json& object, std::string where, exchange::Faults& faults)
    : object_(object), where_(std::move(where)), faults_(faults) {
  if (!object.is_object()) faults_.add(cat(where_, " must be an object, is ", brief(object)));
}

const json* Fields::member(const char* key, bool optional) {
  asked_.insert(key);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  if (found != object_.end()) return &*found;
  if (!optional) faults_.add(cat(where_, ".", key, " is missing"));
  return nullptr;
}

void Fields::wrong(const char* key, const std::string& must, const json& is) {
  faults_.add(cat(where_, ".", key, " must be ", must, ", is ", brief(is)));
}

void Fields::text(const char* key, std::string* value) {
  const json* const found = member(key);
  if (found == nullptr) return;
  if (!found->is_string()) return wrong(key, "a text", *found);
  *value = found->get<std::string>();
}

void Fields::integer(const char* key, std::int64_t* value, std::int64_t low, std::int64_t high) {
  const json* const found = member(key);
  if (found == nullptr) return;
  std::int64_t read = 0;
  if (!whole_number(*found, &read) || read < low || read > high)
    return wrong(key,
                 high == std::numeric_limits<std::int64_t>::max()
                     ? cat("a whole number of at least ", low)
                     : cat("a whole number from ", low, " to ", high),
                 *found);
  *value = read;
}

void Fields::integer(const char* key, int* value, int low, int high) {
  std::int64_t wide = *value;
  integer(key, &wide, std::int64_t{low}, std::int64_t{high});
  *value = int(wide);
}

void Fields::positive(const char* key, double* value) {
  const json* const found = member(key);
  if (found == nullptr) return;
  if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() <= 0)
    return wrong(key, "a number above 0", *found);
  *value = found->get<double>();
}

void Fields::object(const char* key, json* value) {
  const json* const found = member(key);
  if (found == nullptr) return;
  if (!found->is_object()) return wrong(key, "an object", *found);
  *value = *found;
}

void Fields::no_others() const {
  if (!object_.is_object()) return;
  for (const auto& [key, value] : object_.items()) {
    if (!asked_.contains(key)) faults_.add(cat(where_, " has an unknown member ", exchange::shown(key)));
  }
}

}  // namespace zt::checkpoint
