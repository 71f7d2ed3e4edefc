#include "data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace zt::data {
namespace {

class Packer {
 public:
  explicit Packer(std::int64_t room) : room_(room) {}

  void add(std::int64_t document, std::int64_t length) {
    std::vector<std::int64_t> row;
    std::int64_t left = room_;
    if (const auto best = open_.lower_bound(length); best != open_.end()) {
      left = best->first;
      row = std::move(best->second);
      open_.erase(best);
    }
    row.push_back(document);
    left -= length;
    if (left == 0)
      close(row);
    else
      open_.emplace(left, std::move(row));
    if (open_.size() > kOpenRows) close_first();
  }

  PackedDocuments finish() {
    while (!open_.empty()) close_first();
    return std::move(packed_);
  }

 private:
  void close_first() {
    close(open_.begin()->second);
    open_.erase(open_.begin());
  }
  // Inside a row documents stand in the order of the source.
  void close(std::vector<std::int64_t>& row) {
    std::ranges::sort(row);
    packed_.documents.insert(packed_.documents.end(), row.begin(), row.end());
    packed_.begins.push_back(static_cast<std::int64_t>(packed_.documents.size()));
  }

  const std::int64_t room_;
  std::multimap<std::int64_t, std::vector<std::int64_t>> open_;  // by the room that is left
  PackedDocuments packed_;
};

}  // namespace

std::span<const std::int64_t> PackedDocuments::row(std::int64_t number) const {
  const auto r = static_cast<std::size_t>(number);
  return std::span(documents).subspan(static_cast<std::size_t>(begins[r]),
                                      static_cast<std::size_t>(begins[r + 1] - begins[r]));
}

PackedDocuments pack(std::int64_t count, std::int64_t room,
                     const std::function<std::int64_t(std::int64_t)>& length) {
  Packer packer(room);
  std::vector<std::int64_t> window, lengths;
  for (std::int64_t first = 0; first < count; first += kPackingWindow) {
    const auto size = static_cast<std::size_t>(std::min(kPackingWindow, count - first));
    window.resize(size);
    lengths.resize(size);
    std::iota(window.begin(), window.end(), first);
    std::ranges::transform(window, lengths.begin(), length);
    std::ranges::stable_sort(window, std::greater(),
                             [&](std::int64_t d) { return lengths[static_cast<std::size_t>(d - first)]; });
    for (const std::int64_t d : window) packer.add(d, lengths[static_cast<std::size_t>(d - first)]);
  }
  return packer.finish();
}

}  // namespace zt::data
