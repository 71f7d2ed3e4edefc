// Trains GPT-2 124M on random tokens over ranks and prints, for ZeRO stages 0 to 3: the step time beside stage 0's of
// the same run, the bytes a rank holds beside the plan and the paper's formula, and what communication took.
// Usage: mpirun -n 2 zero [--rows 2] [--length 512] [--rounds 3] [--steps 2] [--dtype f32|bf16] [--prefetch 1]
// One thread a rank unless OMP_NUM_THREADS says otherwise. Record the output in bench/records/.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "comm/mpi.h"
#include "common.h"
#include "device/arena.h"
#include "device/cores.h"
#include "exec/engine.h"

namespace {

using namespace zt;
using namespace zt::bench;

struct ZeroSettings : Settings {
  int rounds = 3, prefetch = 1;
};

ZeroSettings parse(const Arguments& a) {
  return {settings(a, {2, 512, 2, Dtype::f32}), int(a.number("--rounds", 3)), int(a.number("--prefetch", 1))};
}

exec::EngineOptions options_of(const ZeroSettings& s, int stage, int ranks) {
  exec::EngineOptions o;
  o.shape.sequence_length = s.length;
  o.shape.rows = o.shape.eval_rows = s.rows;
  o.shape.policy.zero.gather_weights = stage == 3;
  o.shape.policy.zero.prefetch = s.prefetch;
  o.shape.policy.zero.reduce = stage >= 2 ? schedule::ReduceEvery::micro : schedule::ReduceEvery::step;
  o.shape.partition = plan::Partition::of_stage(stage, ranks, o.shape.policy.zero.reduce);
  o.dtype = s.dtype;
  o.lanes.threads = true;
  return o;
}

// Model states by the paper's formula with fp32 gradients and, beside bf16 weights, an fp32 master copy.
double formula(const spec::ModelSpec& m, const ZeroSettings& s, int stage, int ranks) {
  const double psi = double(m.parameters()), n = ranks, w = size_of(s.dtype),
               o = s.dtype == Dtype::f32 ? 8 : 12;
  return psi * ((stage < 3 ? w : w / n) + (stage < 2 ? 4 : 4 / n) + (stage < 1 ? o : o / n));
}

struct Figures {
  double seconds = 1e30, exposed = 0, loss = 0;
  std::int64_t held = 0, planned = 0, states = 0, sent = 0;
};

void measure(const ZeroSettings& s, int stage, comm::Communicator& comm, Figures* best) {
  const spec::ModelSpec m = gpt2_124m();
  exec::Engine engine(m, options_of(s, stage, comm.size()), &comm);
  shard::initialise(engine.params(), m, 1);
  engine.gather_weights();
  const exec::HostBatch batch = random_batch(s.rows, s.length, m, std::uint32_t(comm.rank()));
  const std::int64_t tokens = s.rows * s.length * comm.size();
  kernels::AdamW adamw{.lr = 1e-4f};
  for (int step = 1; step <= s.steps + 1; ++step) {  // the first one warms up
    adamw.t = step;
    comm.barrier();
    const comm::Traffic before = comm.traffic();
    const auto start = std::chrono::steady_clock::now();
    const exec::StepResult r = engine.train_step({&batch, 1}, tokens, std::uint32_t(step), adamw, 1.0);
    comm.barrier();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const comm::Traffic sent = comm.traffic() - before;
    best->loss = r.loss_sum / double(tokens);
    best->sent = sent.all_gather + sent.reduce_scatter + sent.all_reduce;
    if (step == 1 || seconds >= best->seconds) continue;
    best->seconds = seconds;
    best->exposed = r.exposed_comm_seconds;
  }
  best->held = engine.held_bytes();
  best->planned = engine.plan().total();
  best->states = engine.params().bytes();
}

void print(const ZeroSettings& s, const std::map<int, Figures>& figures, comm::Communicator& comm) {
  const double mib = 1024.0 * 1024.0;
  std::printf("gpt2-124m %s, %d ranks (%s), micro-batch %lld x %lld, prefetch %d, best of %d x %d steps\n",
              name(s.dtype), comm.size(), comm.transport().c_str(), (long long)s.rows, (long long)s.length,
              s.prefetch, s.rounds, s.steps);
  std::printf(
      "stage   s/step  of stage 0  exposed s   sent MiB  states MiB  formula MiB  held MiB  planned MiB  "
      "loss\n");
  for (const auto& [stage, f] : figures)
    std::printf("%5d  %7.3f  %10.3f  %9.3f  %9.1f  %10.1f  %11.1f  %8.1f  %11.1f  %.6f\n", stage, f.seconds,
                f.seconds / figures.at(0).seconds, f.exposed, double(f.sent) / mib, double(f.states) / mib,
                formula(gpt2_124m(), s, stage, comm.size()) / mib, double(f.held) / mib,
                double(f.planned) / mib, f.loss);
  std::printf("process peak of rank 0 over all stages: %.1f MiB\n",
              double(device::process_peak_bytes()) / mib);
}

}  // namespace

int main(int argc, char** argv) {
  const ZeroSettings s = parse(Arguments(argc, argv));
  comm::MpiSession session;
  const auto comm = session.world(600);
  device::compute_with(1);
  std::map<int, Figures> figures;
  try {
    for (int round = 0; round < s.rounds; ++round)
      for (const int stage : {0, 1, 2, 3}) measure(s, stage, *comm, &figures[stage]);
  } catch (const Error& e) {
    std::fprintf(stderr, "rank %d: %s\n", comm->rank(), e.what());
    comm::MpiSession::abort(exit_status(e.blame()));
  }
  if (comm->rank() == 0) print(s, figures, *comm);
  return 0;
}
