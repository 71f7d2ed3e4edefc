#include "data/dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "data/order.h"

namespace zt::data {

static std::vector<std::int64_t> shares_of(const std::vector<Dataset::Source>& sources) {
  std::vector<double> weights;
  std::vector<std::int64_t> rows;
  for (const Dataset::Source& source : sources) {
    if (source.weight) weights.push_back(*source.weight);
    rows.push_back(source.rows->rows());
  }
  // Without weights every row is drawn once in an epoch.
  return weights.empty() ? rows : shares_of(weights);
}

Dataset::Dataset(std::vector<Source> sources, std::int64_t length)
    : sources_(std::move(sources)), length_(length), mixture_(shares_of(sources_)) {
  for (const Source& source : sources_) rows_ += source.rows->rows();
}

std::int64_t Dataset::tokens() const {
  return std::accumulate(sources_.begin(), sources_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Source& source) { return sum + source.rows->tokens(); });
}

std::int64_t Dataset::documents() const {
  return std::accumulate(
      sources_.begin(), sources_.end(), std::int64_t{0},
      [](std::int64_t sum, const Source& source) { return sum + source.rows->documents(); });
}

Place Dataset::place_of_row(std::int64_t number) const {
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    if (number < sources_[s].rows->rows()) return {s, number};
    number -= sources_[s].rows->rows();
  }
  throw Error(Blame::bug, "a row behind the last one was asked for");
}

// Each source has an order of its own, so that its passes do not depend on the others.
Place Dataset::place_of_sample(std::int64_t sample, std::uint64_t seed) const {
  const Draw draw = mixture_.at(sample);
  constexpr std::uint64_t kApart = 0x9E3779B97F4A7C15;  // the golden ratio spreads the seeds
  return {draw.source,
          row_of_sample(draw.number, sources_[draw.source].rows->rows(), seed + draw.source * kApart)};
}

std::string Dataset::digest() const {
  std::string all = cat("length ", length_);
  for (const Source& source : sources_) {
    all += source.rows->digest();
    if (source.weight) all += cat(" weight ", *source.weight);
  }
  return digest_of(all);
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
