#include "train/evaluate.h"

#include <algorithm>
#include <vector>

namespace zt::train {

static exec::HostBatch batch_at(const data::Dataset& rows, std::int64_t first, std::int64_t batch_size) {
  std::vector<data::Row> batch;
  for (std::int64_t r = first; r < std::min(rows.rows(), first + batch_size); ++r)
    batch.push_back(rows.row(r));
  return data::make_batch(batch, batch_size, rows.length());
}

// Every rank plays as many batches as the others, the last one perhaps an empty one: they gather together.
Evaluation evaluate(exec::Engine& engine, const data::Dataset& rows, std::int64_t batch_size) {
  comm::Communicator& comm = engine.comm();
  struct Part {
    double loss_sum;
    std::int64_t tokens;
  };
  std::vector<Part> parts(static_cast<std::size_t>(comm.size()));
  Evaluation total;
  for (std::int64_t first = 0; first < rows.rows(); first += batch_size * comm.size()) {
    const exec::HostBatch host = batch_at(rows, first + batch_size * comm.rank(), batch_size);
    const Part mine{engine.evaluate(host), host.supervised()};
    comm.exchange<Part>({&mine, 1}, parts);
    for (const Part& part : parts) {
      total.loss_sum += part.loss_sum;
      total.tokens += part.tokens;
    }
  }
  return total;
}

}  // namespace zt::train
