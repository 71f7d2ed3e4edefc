// The ids of words met lately.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace zt::text {

// Words above 32 bytes or 16 ids are not kept; a new word takes the place of an older one, so the size is fixed
// (about 4 MiB). Not thread-safe.
class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 32, kMostIds = 16;
  WordCache() : slots_(kSlots) {}
  // Appends the word's ids and returns true when it is known.
  bool append_ids(std::string_view word, std::vector<std::int32_t>* out) const;
  void keep(std::string_view word, const std::vector<std::int32_t>& ids);

 private:
  static constexpr std::size_t kSlots = 1 << 15;
  struct Slot {
    std::uint8_t length = 0, count = 0;  // length 0: empty
    std::array<char, kLongestWord> word;
    std::array<std::int32_t, kMostIds> ids;
  };
  static std::size_t slot_of(std::string_view word);
  std::vector<Slot> slots_;
};

}  // namespace zt::text
