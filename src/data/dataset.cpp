#include "data/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {

static constexpr std::int32_t kIgnored = -100;

Dataset::Dataset(const std::filesystem::path& tokens, std::string name, std::int64_t length, bool packing)
    : file_(tokens), name_(std::move(name)), length_(length), packing_(packing) {
  if (length < 2)
    throw Error(Blame::usage, cat("data.sequence_length must be at least 2, is ", length),
                "a row of one token has nothing to predict");
  Start at{0, 0};
  while (at.document < file_.documents()) {
    const Start next = walk(at, [](std::int64_t, std::int64_t, std::int64_t) {});
    if (useful(at)) starts_.push_back(at);
    at = next;
  }
}

template <typename Take>
Dataset::Start Dataset::walk(Start at, Take take) const {
  std::int64_t room = length_;
  while (room > 0 && at.document < file_.documents()) {
    const std::int64_t begin = file_.document_begin(at.document) + at.offset;
    const std::int64_t left = file_.document_begin(at.document + 1) - begin;
    // The first id of a longer document, alone at the row's end, would train nothing.
    if (room == 1 && left > 1) break;
    const std::int64_t count = std::min(room, left);
    if (count > 0) take(at.document, begin, count);
    room -= count;
    // The repeated id alone would train nothing, so a document that just fits is over.
    if (count < left) return {at.document, at.offset + count - 1};
    at = {at.document + 1, 0};
    if (!packing_) break;
  }
  return at;
}

// A row whose documents all have a single id trains nothing.
bool Dataset::useful(Start at) const {
  bool any = false;
  walk(at, [&any](std::int64_t, std::int64_t, std::int64_t count) { any |= count > 1; });
  return any;
}

Row Dataset::row(std::int64_t number) const {
  const Start start = starts_.at(static_cast<std::size_t>(number));
  Row row;
  row.id = cat(name_, "#", start.document, "+", start.offset);
  row.documents.push_back(0);
  walk(start, [&](std::int64_t, std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) row.ids.push_back(file_.token(begin + i));
    row.documents.push_back(static_cast<std::int32_t>(row.ids.size()));
  });
  row.labels = row.ids;
  return row;
}

std::string Dataset::digest() const {
  return digest_of(cat(file_.digest(), " length ", length_, " packing ", packing_));
}

exec::HostBatch make_batch(std::span<const Row> rows, std::int64_t count, std::int64_t length,
                           std::span<const std::int64_t> numbers) {
  if (static_cast<std::int64_t>(rows.size()) > count)
    throw Error(Blame::bug, cat(rows.size(), " rows do not fit a batch of ", count));
  if (!numbers.empty() && numbers.size() != rows.size())
    throw Error(Blame::bug, cat(rows.size(), " rows have ", numbers.size(), " numbers"));
  const auto N = static_cast<std::size_t>(count * length);
  const std::vector<std::int32_t> zeros(N, 0);
  exec::HostBatch batch{zeros, zeros, std::vector<std::int32_t>(N, kIgnored), {0}, zeros, !numbers.empty()};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (static_cast<std::int64_t>(row.ids.size()) > length)
      throw Error(Blame::bug, cat("row ", row.id, " has ", row.ids.size(), " ids, more than ", length));
    const std::int32_t start = batch.bounds.back();
    const std::int64_t place = (numbers.empty() ? static_cast<std::int64_t>(r) : numbers[r]) * length;
    std::ranges::copy(row.ids, batch.tokens.begin() + start);
    for (std::size_t d = 0; d + 1 < row.documents.size(); ++d) {
      const std::int32_t first = row.documents[d], end = row.documents[d + 1];
      for (std::int32_t i = first; i < end; ++i) {
        const auto at = static_cast<std::size_t>(start + i);
        batch.positions[at] = i - first;
        batch.places[at] = static_cast<std::int32_t>(place + i);
        if (i + 1 < end) batch.targets[at] = row.labels[static_cast<std::size_t>(i) + 1];
      }
      batch.bounds.push_back(start + end);
    }
  }
  return batch;
}

}  // namespace zt::data
