#include "train/evaluate.h"

#include <algorithm>
#include <vector>

namespace zt::train {

Evaluation evaluate(exec::Engine& engine, const data::Dataset& rows, std::int64_t batch_size) {
  Evaluation total;
  for (std::int64_t first = 0; first < rows.rows(); first += batch_size) {
    std::vector<data::Row> batch;
    for (std::int64_t r = first; r < std::min(rows.rows(), first + batch_size); ++r)
      batch.push_back(rows.row(r));
    const exec::HostBatch host = data::make_batch(batch, batch_size, rows.length());
    total.loss_sum += engine.evaluate(host);
    total.tokens += host.supervised();
  }
  return total;
}

}  // namespace zt::train
