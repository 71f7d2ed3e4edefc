// Where a plan's times come from and where they go wrong: trains a recipe's model on random tokens and prints, for each
// kind of op, what its ops took beside what the plan says they take, and the whole step beside the simulated one.
// Usage: [mpirun -n N] plan_time --recipe FILE --cluster FILE [--steps 12]
// Ops are timed with everything on one thread (comm.lanes: inline), the step also as the recipe has it.
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "comm/mpi.h"
#include "common.h"
#include "device/cores.h"
#include "measure/rounds.h"
#include "plan/simulator.h"
#include "recipe/recipe.h"
#include "train/setup.h"

namespace {

using namespace zt;
using namespace zt::bench;
using measure::now;

struct Run {
  double step = 0;          // seconds, median
  std::vector<double> ops;  // seconds of each, mean; empty unless asked for
};

std::vector<exec::HostBatch> batches_of(const plan::StepShape& shape, const spec::ModelSpec& model,
                                        int rank) {
  std::vector<exec::HostBatch> micros;
  for (std::int64_t m = 0; m < shape.micros; ++m)
    micros.push_back(random_batch(shape.rows, shape.sequence_length, model, std::uint32_t(rank * 1000 + m)));
  return micros;
}

// Plays steps. Where lanes are inline, an op lasts until the next one begins.
Run play(const spec::ModelSpec& model, exec::EngineOptions options, comm::Communicator& comm, int steps) {
  Run run;
  std::vector<double> starts;
  if (!options.lanes.threads) options.lanes.before = [&](const schedule::Op&) { starts.push_back(now()); };
  exec::Engine engine(model, options, &comm);
  shard::initialise(engine.params(), model, 1);
  engine.gather_weights();
  const auto micros = batches_of(options.shape, model, comm.rank());
  const std::int64_t supervised = options.shape.train_shape().tokens * options.shape.micros * comm.size();
  std::vector<double> seconds;
  constexpr int kWarm = 3;
  for (int step = 1; step <= steps + kWarm; ++step) {
    starts.clear();
    comm.barrier();
    const double start = now();
    engine.train_step(micros, supervised, std::uint32_t(step), kernels::AdamW{.lr = 1e-5f, .t = step}, 1.0);
    const double end = now();
    if (step <= kWarm) continue;
    seconds.push_back(end - start);
    if (starts.empty()) continue;
    run.ops.resize(starts.size());
    starts.push_back(end);
    for (std::size_t i = 0; i < run.ops.size(); ++i) run.ops[i] += (starts[i + 1] - starts[i]) / steps;
  }
  run.step = measure::median(seconds);
  return run;
}

struct Row {
  int count = 0;
  double measured = 0, planned = 0;
};

void print(const schedule::Schedule& list, int head, const Run& inlined, const std::vector<double>& planned) {
  std::map<std::string, Row> rows;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const schedule::Op& op = list.ops[i];
    const char* const where = op.block == 0      ? " embedding"
                              : op.block == head ? " head"
                              : op.block < 0     ? " all"
                                                 : "";
    for (const std::string& key : {std::string(name(op.kind)) + where, std::string("~ all ops, inline")}) {
      Row& row = rows[key];
      ++row.count;
      row.measured += inlined.ops[i];
      row.planned += planned[i];
    }
  }
  std::printf("%-24s %5s %12s %12s %8s\n", "op", "count", "measured ms", "planned ms", "off by");
  for (const auto& [what, row] : rows)
    std::printf("%-24s %5d %12.3f %12.3f %+7.1f%%\n", what.c_str(), row.count, row.measured * 1e3,
                row.planned * 1e3, 100 * (row.planned / row.measured - 1));
}

int run(const Arguments& a) {
  std::optional<comm::MpiSession> session;
  if (comm::launched()) session.emplace();
  const auto comm = session ? session->world(600) : comm::solo();
  device::compute_with(device::threads_of_rank(comm->size()));
  const recipe::Recipe recipe = recipe::load(a.text("--recipe", ""), {}, comm->size()).recipe;
  const plan::Cluster cluster = plan::open_cluster(a.text("--cluster", plan::calibration_path()));
  const spec::ModelSpec model = train::open_spec(recipe);
  exec::EngineOptions options = train::engine_options(recipe, true, comm->size());
  const int steps = int(a.number("--steps", 12));
  const Run lanes = play(model, options, *comm, steps);
  options.lanes.threads = false;
  const Run inlined = play(model, options, *comm, steps);
  if (comm->rank() > 0) return 0;
  const schedule::Schedule list = plan::plan_step(model, options.shape).train;
  const std::vector<double> planned = plan::op_seconds(list, model, options.shape, cluster);
  print(list, int(model.blocks.size()) - 1, inlined, planned);
  const plan::Simulation simulation =
      plan::simulate(list, planned, plan::sharing_of(cluster, cluster.node_for(comm->size())));
  std::printf("step in lanes %31.3f %12.3f %+7.1f%%   (inline %.3f)\n", lanes.step * 1e3,
              simulation.seconds * 1e3, 100 * (simulation.seconds / lanes.step - 1), inlined.step * 1e3);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return told(argc, argv, run); }
