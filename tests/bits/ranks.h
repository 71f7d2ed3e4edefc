// One model trained by several virtual ranks, and everything that must agree about it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/random.h"
#include "comm/threads.h"
#include "exec/engine.h"
#include "support/tiny_models.h"

namespace zt::test {

struct ZeroCase {
  int ranks = 1, stage = 0;
  std::int64_t micros = 1;  // of each rank
  schedule::Policy policy = {};
  exec::LaneOptions lanes = {};
  Dtype dtype = Dtype::f32, grad_dtype = Dtype::f32, wire = Dtype::f32;
  float dropout = 0;
  bool selective = false;  // recomputation inside the blocks
};

// What a run leaves, as rank 0 tells it; the others are held to the same.
struct ZeroTrace {
  std::vector<double> losses, norms;
  Floats values;                              // of every element, from its owner
  std::vector<std::vector<double>> of_ranks;  // losses and norms as each rank has them
  std::vector<comm::Traffic> traffic;         // of each rank, after the first gather of whole weights
  plan::Traffic planned;                      // of a step
  std::vector<std::int64_t> held;             // bytes of each rank
  std::int64_t planned_bytes = 0;
  bool operator==(const ZeroTrace& other) const {
    return losses == other.losses && norms == other.norms && values == other.values;
  }
};

inline exec::EngineOptions engine_options(const ZeroCase& c, std::int64_t rows, std::int64_t length) {
  exec::EngineOptions o;
  o.shape.partition = plan::Partition::of_stage(c.stage, c.ranks, c.policy.zero.reduce);
  o.shape.sequence_length = length;
  o.shape.rows = o.shape.eval_rows = rows;
  o.shape.micros = c.micros;
  o.shape.policy = c.policy;
  o.shape.policy.zero.gather_weights = c.stage == 3;
  o.dtype = c.dtype;
  o.grad_dtype = c.grad_dtype;
  o.wire = c.wire;
  o.dropout = c.dropout;
  o.shape.selective = c.selective;
  o.lanes = c.lanes;
  o.seed = 3;
  return o;
}

// Where the ranks of a case compute: calls `train` with the options and the communicator of a rank, changed as it likes.
using Train = std::function<void(const exec::EngineOptions&, comm::Communicator&)>;
using Place = std::function<void(exec::EngineOptions options, comm::Communicator& hosts, const Train& train)>;
inline const Place kOnHost = [](const exec::EngineOptions& options, comm::Communicator& hosts,
                                const Train& train) { train(options, hosts); };

// `step_rows(step)` are the rows of the global batch; micro-batch m of rank r is number m * ranks + r, empty where there
// are too few rows.
inline ZeroTrace train_over_ranks(const spec::ModelSpec& model, const ZeroCase& c, std::int64_t rows,
                                  std::int64_t length, int steps,
                                  const std::function<std::vector<data::Row>(int)>& step_rows,
                                  const kernels::AdamW& optimizer, float deviation = 0.3f,
                                  const Place& place = kOnHost) {
  ZeroTrace trace;
  trace.of_ranks.resize(std::size_t(c.ranks));
  trace.traffic.resize(std::size_t(c.ranks));
  trace.held.resize(std::size_t(c.ranks));
  for (const spec::BlockSpec& block : model.blocks)
    trace.values.resize(trace.values.size() + std::size_t(block.elements));
  std::mutex mutex;
  const Train train = [&](const exec::EngineOptions& options, comm::Communicator& comm) {
    const auto rank = std::size_t(comm.rank());
    exec::Engine engine(model, options, &comm);
    spec::ModelSpec wide = model;
    wide.init_std = deviation;
    shard::initialise(engine.params(), wide, 5);
    engine.gather_weights();
    const comm::Traffic before = comm.traffic();
    for (int step = 1; step <= steps; ++step) {
      const auto all = micro_batches(step_rows(step), rows, length);
      std::vector<exec::HostBatch> mine;
      for (std::size_t i = rank; i < all.size(); i += std::size_t(c.ranks)) mine.push_back(all[i]);
      while (std::int64_t(mine.size()) < c.micros) mine.push_back(data::make_batch({}, rows, length));
      kernels::AdamW a = optimizer;
      a.t = step;
      const auto r = engine.train_step(mine, supervised(all), std::uint32_t(step), a, 1.0);
      const std::lock_guard lock(mutex);
      trace.of_ranks[rank].insert(trace.of_ranks[rank].end(), {r.loss_sum, r.grad_norm});
      if (rank > 0) continue;
      trace.losses.push_back(r.loss_sum);
      trace.norms.push_back(r.grad_norm);
    }
    const std::lock_guard lock(mutex);
    trace.traffic[rank] = comm.traffic() - before;
    trace.held[rank] = engine.held_bytes();
    trace.planned = engine.plan().traffic;
    trace.planned_bytes = engine.plan().total();
    std::int64_t start = 0;
    for (int b = 0; b < int(model.blocks.size()); ++b) {
      const plan::Range mine = engine.params().owned(b);
      if (mine.count > 0)
        engine.params().get(b, mine.first, trace.values.data() + start + mine.first, mine.count);
      start += model.blocks[std::size_t(b)].elements;
    }
  };
  comm::run_threads(c.ranks, 60,
                    [&](comm::Communicator& hosts) { place(engine_options(c, rows, length), hosts, train); });
  return trace;
}

}  // namespace zt::test
