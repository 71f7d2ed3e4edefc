#include "train/batches.h"

#include <algorithm>

#include "base/file.h"
#include "data/order.h"

namespace zt::train {
namespace {

// What every rank learns of each row.
struct RowFacts {
  char digest[16] = {};
  std::int64_t tokens = 0, supervised = 0;
};

RowFacts facts_of(const data::Row& row, std::span<const std::int32_t> targets) {
  RowFacts facts;
  const std::string bytes(reinterpret_cast<const char*>(row.ids.data()), row.ids.size() * sizeof row.ids[0]);
  digest_of(bytes).copy(facts.digest, sizeof facts.digest);
  facts.tokens = static_cast<std::int64_t>(row.ids.size());
  facts.supervised = std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; });
  return facts;
}

}  // namespace

StepBatch step_batch(const data::Dataset& rows, const StepSamples& s, comm::Communicator& comm) {
  StepBatch batch;
  const std::int64_t micros = s.count / (s.rows * comm.size()), length = rows.length();
  std::vector<RowFacts> mine(static_cast<std::size_t>(micros * s.rows));
  for (std::int64_t m = 0; m < micros; ++m) {
    const std::int64_t first = s.first + (m * comm.size() + comm.rank()) * s.rows;
    std::vector<data::Row> micro;
    for (std::int64_t sample = first; sample < std::min(first + s.rows, s.end); ++sample)
      micro.push_back(rows.row(data::row_of_sample(sample, rows.rows(), s.seed)));
    batch.micros.push_back(data::make_batch(micro, s.rows, length));
    std::span<const std::int32_t> targets = batch.micros.back().targets;
    for (std::size_t i = 0; i < micro.size(); ++i) {
      const std::size_t ids = micro[i].ids.size();
      mine[static_cast<std::size_t>(m * s.rows) + i] = facts_of(micro[i], targets.first(ids));
      targets = targets.subspan(ids);
    }
  }
  std::vector<RowFacts> all(mine.size() * static_cast<std::size_t>(comm.size()));
  comm.exchange<RowFacts>(mine, all);

  std::string digests;
  const std::int64_t rows_there = std::clamp<std::int64_t>(s.end - s.first, 0, s.count);
  for (std::int64_t i = 0; i < rows_there; ++i) {
    const std::int64_t micro = i / s.rows, rank = micro % comm.size(), m = micro / comm.size();
    const RowFacts& facts = all[static_cast<std::size_t>(rank * micros * s.rows + m * s.rows + i % s.rows)];
    digests.append(facts.digest, sizeof facts.digest);
    batch.tokens += facts.tokens;
    batch.supervised += facts.supervised;
  }
  batch.hash = digest_of(digests).substr(0, 16);
  return batch;
}

}  // namespace zt::train
