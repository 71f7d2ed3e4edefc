#include "text/json_fields.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace zt::text {
namespace {

[[noreturn]] void refuse(const std::string& where, const char* key, const std::string& fault) {
  throw Error(Blame::model, cat(where, ".", key, " ", fault));
}

// Sequences of normalizers and their like are read by functions that call themselves; real files nest some ten levels.
constexpr int kMaxDepth = 64;

// Brackets outside of strings; of text that is no JSON it says anything.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > kMaxDepth)
      return true;
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& file_name) {
  if (nests_too_deep(text))
    throw Error(Blame::model, cat(file_name, " nests deeper than ", kMaxDepth, " levels"));
  try {
    Json parsed = Json::parse(text);
    if (!parsed.is_object()) throw Error(Blame::model, cat(file_name, " must hold a JSON object"));
    return parsed;
  } catch (const Json::parse_error& e) {
    throw Error(Blame::model, cat(file_name, " is not valid JSON near byte ", e.byte, " of ", text.size()),
                "is the file complete? a Git LFS pointer or a broken download looks like this");
  } catch (const Json::out_of_range&) {
    throw Error(Blame::model, cat(file_name, " holds a number that is too large for any use"));
  }
}

bool present(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object[key].is_null();
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw Error(Blame::model, cat(where, " must be an object"));
  if (!present(object, key)) refuse(where, key, "is missing");
  return object[key];
}

std::string text_member(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_string()) refuse(where, key, cat("must be a text, is ", value.type_name()));
  return value.get<std::string>();
}

std::string text_or(const Json& object, const char* key, const std::string& fallback,
                    const std::string& where) {
  return present(object, key) ? text_member(object, key, where) : fallback;
}

bool flag_or(const Json& object, const char* key, bool fallback, const std::string& where) {
  if (!present(object, key)) return fallback;
  if (!object[key].is_boolean())
    refuse(where, key, cat("must be true or false, is ", object[key].type_name()));
  return object[key].get<bool>();
}

std::int64_t int_member(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  if (!value.is_number_integer()) refuse(where, key, cat("must be a whole number, is ", value.dump()));
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    refuse(where, key, cat("is too large: ", value.dump()));
  return value.get<std::int64_t>();
}

std::string type_of(const Json& object, const std::string& where) {
  return text_member(object, "type", where);
}

void allow_only(const Json& object, std::initializer_list<const char*> keys, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    const bool known =
        key == "type" || std::any_of(keys.begin(), keys.end(), [&](const char* k) { return key == k; });
    if (!known) throw Error(Blame::model, cat(where, ": option ", key, " is not supported"));
  }
}

}  // namespace zt::text
