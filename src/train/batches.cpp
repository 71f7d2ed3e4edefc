#include "train/batches.h"

#include <algorithm>

#include "base/file.h"
#include "train/balance.h"

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

// The step's rows in the order of training, which is the fast way to ask for them.
static std::vector<data::Place> places_of(const data::Dataset& rows, const StepSamples& s) {
  std::vector<data::Place> places;
  for (std::int64_t place = s.first; place < std::min(s.first + s.count, s.end); ++place)
    places.push_back(rows.place_of_sample(s.order.number(place), s.seed));
  return places;
}

std::vector<std::string> row_ids(const data::Dataset& rows, const StepSamples& s) {
  std::vector<std::string> ids;
  for (const data::Place& place : places_of(rows, s)) ids.push_back(rows.at(place).id);
  return ids;
}

// What each sample of the step costs; those that don't exist cost nothing.
static std::vector<double> costs_of(const data::Dataset& rows, std::span<const data::Place> places,
                                    const StepSamples& s) {
  std::vector<double> costs(static_cast<std::size_t>(s.count));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const data::RowCost cost = rows.cost(places[i]);
    costs[i] = cost.squares + s.token_cost * static_cast<double>(cost.tokens);
  }
  return costs;
}

StepBatch step_batch(const data::Dataset& rows, const StepSamples& s, comm::Communicator& comm) {
  StepBatch batch;
  const std::int64_t micros = s.count / (s.rows * comm.size()), length = rows.length();
  const std::vector<data::Place> step = places_of(rows, s);
  const std::vector<double> costs = costs_of(rows, step, s);
  const std::vector<std::int64_t> slots = deal(costs, s.rows, comm.size());
  batch.imbalance = imbalance(costs, slots, s.rows, comm.size());
  std::vector<RowFacts> mine(static_cast<std::size_t>(micros * s.rows));
  for (std::int64_t m = 0; m < micros; ++m) {
    const auto slot = static_cast<std::size_t>((m * comm.size() + comm.rank()) * s.rows);
    RowFacts* facts = &mine[static_cast<std::size_t>(m * s.rows)];
    std::vector<data::Row> micro;
    std::vector<RowFacts*> places;
    std::vector<std::int64_t> numbers;  // in the global batch, whichever rank has the row
    for (const std::int64_t sample : std::span(slots).subspan(slot, static_cast<std::size_t>(s.rows))) {
      if (const auto at = static_cast<std::size_t>(sample); at < step.size()) {
        micro.push_back(rows.at(step[at]));
        places.push_back(facts);
        numbers.push_back(sample);
      }
      ++facts;
    }
    batch.micros.push_back(data::make_batch(micro, s.rows, length, numbers));
    std::span<const std::int32_t> targets = batch.micros.back().targets;
    for (std::size_t i = 0; i < micro.size(); ++i) {
      const std::size_t ids = micro[i].ids.size();
      *places[i] = facts_of(micro[i], targets.first(ids));
      targets = targets.subspan(ids);
    }
  }
  std::vector<RowFacts> all(mine.size() * static_cast<std::size_t>(comm.size()));
  comm.exchange<RowFacts>(mine, all);

  std::vector<const RowFacts*> by_sample(slots.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const std::int64_t micro = static_cast<std::int64_t>(slot) / s.rows, rank = micro % comm.size();
    const std::int64_t m = micro / comm.size(), i = static_cast<std::int64_t>(slot) % s.rows;
    by_sample[static_cast<std::size_t>(slots[slot])] =
        &all[static_cast<std::size_t>((rank * micros + m) * s.rows + i)];
  }
  std::string digests;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const RowFacts& facts = *by_sample[i];
    digests.append(facts.digest, sizeof facts.digest);
    batch.tokens += facts.tokens;
    batch.supervised += facts.supervised;
  }
  batch.hash = digest_of(digests).substr(0, 16);
  return batch;
}

}  // namespace zt::train
