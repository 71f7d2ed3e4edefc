#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace zt::text {

MergeTable::MergeTable(std::size_t expected) {
  slots_.resize(std::bit_ceil(std::max<std::size_t>(expected * 2, 16)));
  mask_ = slots_.size() - 1;
}

void MergeTable::set(std::int32_t left, std::int32_t right, Entry entry) {
  if ((size_ + 1) * 2 > slots_.size()) grow();
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = home(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  if (slots_[slot].key == kEmpty) ++size_;
  slots_[slot] = {key, entry};
}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& from : old) {
    if (from.key == kEmpty) continue;
    std::size_t slot = home(from.key);
    while (slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
    slots_[slot] = from;
  }
}

void Merger::apply(const MergeTable& table, std::vector<std::int32_t>* symbols) {
  constexpr std::size_t kScanIsFaster = 24;
  if (symbols->size() <= kScanIsFaster)
    apply_by_scanning(table, symbols);
  else
    apply_by_heap(table, symbols);
}

void Merger::apply_by_scanning(const MergeTable& table, std::vector<std::int32_t>* symbols) {
  // heap_[i] caches the merge of symbols i and i + 1, so that a merge asks the table only about its
  // neighbours.
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t>& word = *symbols;
  const auto candidate = [&](std::size_t i) {
    const auto* entry = i + 1 < word.size() ? table.find(word[i], word[i + 1]) : nullptr;
    return entry == nullptr ? Candidate{kNone, 0, 0} : Candidate{entry->rank, 0, entry->merged};
  };
  heap_.clear();
  for (std::size_t i = 0; i + 1 < word.size(); ++i) heap_.push_back(candidate(i));
  while (!heap_.empty()) {
    const auto best = std::min_element(
        heap_.begin(), heap_.end(), [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
    if (best->rank == kNone) return;
    const auto i = std::size_t(best - heap_.begin());
    word[i] = best->merged;
    word.erase(word.begin() + std::ptrdiff_t(i) + 1);
    heap_.erase(best);
    if (i < heap_.size()) heap_[i] = candidate(i);
    if (i > 0) heap_[i - 1] = candidate(i - 1);
  }
}

void Merger::offer(const MergeTable& table, std::int32_t position) {
  const Node& left = nodes_[std::size_t(position)];
  if (left.next < 0) return;
  const auto* entry = table.find(left.id, nodes_[std::size_t(left.next)].id);
  if (entry == nullptr) return;
  heap_.push_back({entry->rank, position, entry->merged});
  std::push_heap(heap_.begin(), heap_.end());
}

void Merger::apply_by_heap(const MergeTable& table, std::vector<std::int32_t>* symbols) {
  const auto n = std::int32_t(symbols->size());
  nodes_.clear();
  heap_.clear();
  for (std::int32_t i = 0; i < n; ++i)
    nodes_.push_back({(*symbols)[std::size_t(i)], i - 1, i + 1 < n ? i + 1 : -1});
  for (std::int32_t i = 0; i < n; ++i) offer(table, i);
  while (!heap_.empty()) {
    const Candidate top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    Node& left = nodes_[std::size_t(top.position)];
    if (left.id < 0 || left.next < 0) continue;
    Node& right = nodes_[std::size_t(left.next)];
    const auto* now = table.find(left.id, right.id);
    if (now == nullptr || now->rank != top.rank) continue;  // an earlier merge changed this pair
    left.id = top.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) nodes_[std::size_t(left.next)].previous = top.position;
    if (left.previous >= 0) offer(table, left.previous);
    offer(table, top.position);
  }
  symbols->clear();
  for (std::int32_t i = n == 0 ? -1 : 0; i >= 0; i = nodes_[std::size_t(i)].next)
    symbols->push_back(nodes_[std::size_t(i)].id);
}

}  // namespace zt::text
