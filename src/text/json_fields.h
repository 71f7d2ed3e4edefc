// Reading members of JSON objects that people edit: every fault names the member and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace zt::text {

using Json = nlohmann::json;

// Parses a whole file's text. Throws Error(model) that names the file and the offset of the fault, or that it nests deeper
// than 64 levels.
Json parse_json(const std::string& text, const std::string& file_name);

// All throw Error(model); `where` names the object in messages. Absent and null are the same.
bool present(const Json& object, const char* key);
const Json& member(const Json& object, const char* key, const std::string& where);
std::string text_member(const Json& object, const char* key, const std::string& where);
std::string text_or(const Json& object, const char* key, const std::string& fallback,
                    const std::string& where);
bool flag_or(const Json& object, const char* key, bool fallback, const std::string& where);
std::int64_t int_member(const Json& object, const char* key, const std::string& where);

// The object's "type"; it must have no member besides "type" and those named, so that no option is
// overlooked.
std::string type_of(const Json& object, const std::string& where);
void allow_only(const Json& object, std::initializer_list<const char*> keys, const std::string& where);

}  // namespace zt::text
