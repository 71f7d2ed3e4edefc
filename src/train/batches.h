// The batches of a run: which samples a step trains on, dealt out to the ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "train/sample_order.h"

namespace zt::train {

// The samples of one step, in the order of training.
struct StepSamples {
  std::int64_t first = 0;  // place of the first sample since the run began
  std::int64_t count = 0;  // of the global batch
  std::int64_t end = 0;    // places from here on don't exist: the last window may be short
  std::int64_t rows = 1;   // of one micro-batch
  std::uint64_t seed = 0;
  double token_cost = 0;  // of a token besides attention, in units of attention between two tokens
  SampleOrder order;      // what the places are places of
};

// One rank's micro-batches of a step, and what all ranks know about the whole of it.
struct StepBatch {
  std::vector<exec::HostBatch> micros;
  std::int64_t supervised = 0, tokens = 0;
  std::string hash;      // of all ids in sample order; the same for every number of ranks
  double imbalance = 1;  // see balance.h
};

// The samples are the same for every number of ranks; which rank gets which follows their costs (balance.h). Collective.
StepBatch step_batch(const data::Dataset& rows, const StepSamples& samples, comm::Communicator& comm);

// The stable ids of the step's rows, in the order of training.
std::vector<std::string> row_ids(const data::Dataset& rows, const StepSamples& samples);

}  // namespace zt::train
