// Byte pair encoding: merges the adjacent pair of lowest rank, leftmost first, until none is left.
// Source: Sennrich, Haddow & Birch 2016, "Neural Machine Translation of Rare Words with Subword Units",
// section 3.2.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace zt::text {

// Which token two adjacent tokens become, and how early. An open-addressing table: it is asked for every
// adjacent pair of every word.
class MergeTable {
 public:
  struct Entry {
    std::int32_t rank = 0, merged = 0;
  };
  explicit MergeTable(std::size_t expected = 0);
  // A pair given twice keeps its later entry, as the reference reader does.
  void set(std::int32_t left, std::int32_t right, Entry entry);
  const Entry* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].entry;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }
  // Calls use(left, right, entry) for every pair, in no particular order.
  template <typename Use>
  void for_each(Use use) const {
    for (const Slot& slot : slots_)
      if (slot.key != kEmpty)
        use(std::int32_t(slot.key >> 32), std::int32_t(slot.key & 0xFFFFFFFFu), slot.entry);
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Entry entry;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{std::uint32_t(left)} << 32 | std::uint32_t(right);
  }
  std::size_t home(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 20) & mask_; }
  void grow();

  std::vector<Slot> slots_;
  std::size_t mask_ = 0, size_ = 0;
};

// Applies merges to one word in place: O(n log n) for n symbols, whatever they are. Reusable; not
// thread-safe.
class Merger {
 public:
  void apply(const MergeTable& table, std::vector<std::int32_t>* symbols);

 private:
  struct Node {
    std::int32_t id, previous, next;
  };
  struct Candidate {
    std::int32_t rank, position, merged;
    // For a heap whose top is the lowest rank, then the leftmost position.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  void apply_by_scanning(const MergeTable& table, std::vector<std::int32_t>* symbols);
  void apply_by_heap(const MergeTable& table, std::vector<std::int32_t>* symbols);
  void offer(const MergeTable& table, std::int32_t position);

  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace zt::text
