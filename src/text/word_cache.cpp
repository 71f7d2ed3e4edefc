#include "text/word_cache.h"

#include <cstring>
#include <functional>

namespace zt::text {

std::size_t WordCache::slot_of(std::string_view word) {
  return std::hash<std::string_view>()(word) & (kSlots - 1);
}

bool WordCache::append_ids(std::string_view word, std::vector<std::int32_t>* out) const {
  if (word.size() > kLongestWord) return false;
  const Slot& slot = slots_[slot_of(word)];
  if (slot.length != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0)
    return false;
  out->insert(out->end(), slot.ids.begin(), slot.ids.begin() + slot.count);
  return true;
}

void WordCache::keep(std::string_view word, const std::vector<std::int32_t>& ids) {
  if (word.empty() || word.size() > kLongestWord || ids.size() > kMostIds) return;
  Slot& slot = slots_[slot_of(word)];
  slot.length = std::uint8_t(word.size());
  slot.count = std::uint8_t(ids.size());
  std::copy(word.begin(), word.end(), slot.word.begin());
  std::copy(ids.begin(), ids.end(), slot.ids.begin());
}

}  // namespace zt::text
