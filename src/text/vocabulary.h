// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace zt::text {

class Vocabulary {
 public:
  // Adds a token. A fault (an id out of range, an id or a text that is taken) goes to `problems`, and the
  // token is left out. The same token with the same id may be added again.
  void add(const std::string& token, std::int64_t id, Problems* problems);

  std::optional<std::int32_t> id_of(std::string_view token) const;
  // Null for an id that no token has.
  const std::string* token(std::int32_t id) const;
  // Highest id plus one.
  std::int32_t size() const { return std::int32_t(tokens_.size()); }
  // Calls use(token, id) in the order of ids.
  template <typename Use>
  void for_each(Use use) const {
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (tokens_[id] != nullptr) use(*tokens_[id], std::int32_t(id));
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // point to the keys of ids_, which never move
};

}  // namespace zt::text
