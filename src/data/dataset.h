// Rows of several sources drawn by weight, and rows made into batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/mixture.h"
#include "data/row_set.h"
#include "exec/engine.h"

namespace zt::data {

// A row of a dataset.
struct Place {
  std::size_t source = 0;
  std::int64_t row = 0;  // of that source
};

// The rows of all sources. Training draws samples: from each source in the proportion of its weight, or of its rows
// where none has a weight, so that every row comes once in an epoch. An epoch is as many samples as there are rows.
// Each source goes through its rows again and again, in fresh order each time.
class Dataset {
 public:
  struct Source {
    std::string name;
    std::unique_ptr<RowSet> rows;  // at least one
    std::optional<double> weight;  // of all sources or of none
  };
  Dataset(std::vector<Source> sources, std::int64_t length);

  std::int64_t rows() const { return rows_; }
  std::int64_t length() const { return length_; }
  std::int64_t tokens() const;
  std::int64_t documents() const;
  const std::vector<Source>& sources() const { return sources_; }

  // The rows in the order of the sources, and of the rows in them.
  Row row(std::int64_t number) const { return at(place_of_row(number)); }
  Place place_of_row(std::int64_t number) const;
  // The rows in the order of training: sample number n of a run with this seed. Not for several threads at once.
  Row sample(std::int64_t n, std::uint64_t seed) const { return at(place_of_sample(n, seed)); }
  Place place_of_sample(std::int64_t n, std::uint64_t seed) const;

  Row at(const Place& place) const { return sources_[place.source].rows->row(place.row); }
  RowCost cost(const Place& place) const { return sources_[place.source].rows->cost(place.row); }
  // Of everything that decides the samples but the seed.
  std::string digest() const;

 private:
  std::vector<Source> sources_;
  std::int64_t length_, rows_ = 0;
  Mixture mixture_;
};

// The one place where labels become targets: position i must predict labels[i+1], never across a document's
// end. Rows lie one behind the other; what they leave of `count` x `length` slots is not computed.
// `numbers` are those of the rows in the step's global batch, by which dropout then goes; without them it goes by the
// micro-batch's number and the row's in it.
exec::HostBatch make_batch(std::span<const Row> rows, std::int64_t count, std::int64_t length,
                           std::span<const std::int64_t> numbers = {});

}  // namespace zt::data
