#include "text/vocabulary.h"

#include "base/text.h"

namespace zt::text {
namespace {

// Ids index tables, so one absurd id would cost its size in memory. The largest published vocabularies have
// 2^18.
constexpr std::int64_t kIdLimit = std::int64_t{1} << 22;

}  // namespace

void Vocabulary::add(const std::string& token, std::int64_t id, Problems* problems) {
  if (id < 0 || id >= kIdLimit) {
    problems->add(cat("token '", token, "' has id ", id, "; ids go from 0 to ", kIdLimit - 1));
    return;
  }
  if (id < size() && tokens_[std::size_t(id)] != nullptr) {
    if (*tokens_[std::size_t(id)] != token)
      problems->add(cat("id ", id, " is given to both '", *tokens_[std::size_t(id)], "' and '", token, "'"));
    return;
  }
  const auto [place, fresh] = ids_.emplace(token, std::int32_t(id));
  if (!fresh) {
    problems->add(cat("token '", token, "' has both id ", place->second, " and id ", id));
    return;
  }
  if (id >= size()) tokens_.resize(std::size_t(id) + 1, nullptr);
  tokens_[std::size_t(id)] = &place->first;
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token(std::int32_t id) const {
  return id >= 0 && id < size() ? tokens_[std::size_t(id)] : nullptr;
}

}  // namespace zt::text
