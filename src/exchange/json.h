// JSON files of a model folder, read with suspicion.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zt::exchange {

// Parses one JSON text. Refused with Error(model) that names `where`: anything that is not JSON, a key twice
// in one object, nesting over 64 levels.
nlohmann::json parse_json(std::string_view text, const std::string& where);

// The same for a file of at most `limit` bytes whose top value must be an object.
nlohmann::json read_json_object(const std::filesystem::path& path,
                                std::int64_t limit = std::int64_t{64} << 20);

}  // namespace zt::exchange
