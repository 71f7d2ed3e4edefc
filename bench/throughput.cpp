// Trains GPT-2 124M with random weights on random tokens and prints, for each dtype: tokens/s, GFLOP/s by the
// formula 6N + 12LHQT, and the share of the rate that oneDNN's products reach on the same shapes in the same
// run. Usage: throughput [--rows 4] [--length 1024] [--steps 3] [--dtype f32|bf16] [--recompute none|full]
// The number of threads is OMP_NUM_THREADS. Record the command, the machine and the output in bench/records/.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "common.h"
#include "device/arena.h"
#include "exec/engine.h"
#include "spec/flops.h"

namespace {

using namespace zt;
using namespace zt::bench;

double best_of(int times, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) best = std::min(best, seconds_of(work));
  return best;
}

struct StepSettings : Settings {
  schedule::Recompute recompute = schedule::Recompute::none;
};

StepSettings parse(const Arguments& a) {
  const bool full = a.text("--recompute", "none") == "full";
  return {settings(a, {4, 1024, 3, Dtype::f32}),
          full ? schedule::Recompute::full : schedule::Recompute::none};
}

// One product of a training step: the three layouts of a linear layer with I inputs and O outputs over N
// tokens.
struct Product {
  std::int64_t I, O;
  int times;
};

// FLOP/s over all products of a step, each weighted as often as the step does it: forward, input and weight
// gradient.
double product_rate(kernels::Kernels& k, const Settings& s, const spec::ModelSpec& m) {
  const std::int64_t D = m.hidden, F = m.intermediate, N = s.rows * s.length, V = m.vocab,
                     C = std::min<std::int64_t>(N, 1024);
  const Product products[] = {
      {D, 3 * D, m.layers}, {D, D, m.layers}, {D, F, m.layers}, {F, D, m.layers}, {D, V, 1}};
  const device::Arena x(N * F * 4, "x"), w(V * D * 4, "w"), y(std::max(N * F, C * V) * 4, "y"),
      dw(V * D * 4, "dw");
  double flops = 0, seconds = 0;
  for (const Product& p : products) {
    const std::int64_t rows = p.O == V ? C : N;
    const View x_NI(x.at(0), s.dtype, rows, p.I), y_NO(y.at(0), s.dtype, rows, p.O),
        w_OI(w.at(0), s.dtype, p.O, p.I);
    const double forward = best_of(3, [&] { k.linear({x_NI, w_OI, {}, y_NO}); });
    const double dx =
        best_of(3, [&] { k.linear_backward({x_NI, w_OI, y_NO, View(x.at(0), s.dtype, rows, p.I), {}, {}}); });
    const double dw_time = best_of(
        3, [&] { k.linear_backward({x_NI, w_OI, y_NO, {}, View(dw.at(0), Dtype::f32, p.O, p.I), {}}); });
    const double repeats = double(p.times) * double(N) / double(rows);
    flops += repeats * 6.0 * double(rows) * double(p.I) * double(p.O);
    seconds += repeats * (forward + dx + dw_time);
  }
  return flops / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const StepSettings s = parse(Arguments(argc, argv));
  const spec::ModelSpec m = gpt2_124m();
  exec::EngineOptions options;
  options.shape.sequence_length = s.length;
  options.shape.rows = s.rows;
  options.shape.policy.recompute = s.recompute;
  options.dtype = s.dtype;
  exec::Engine engine(m, options);
  shard::initialise(engine.params(), m, 1);
  const double rate_before = product_rate(*engine.context().kernels, s, m);

  const exec::HostBatch batch = random_batch(s.rows, s.length, m);
  kernels::AdamW adamw;
  adamw.lr = 1e-4f;
  double best = 1e30, loss = 0;
  for (int step = 1; step <= s.steps + 1; ++step) {
    adamw.t = step;
    const double seconds = seconds_of([&] {
      loss = engine.train_step({&batch, 1}, batch.supervised(), std::uint32_t(step), adamw, 1.0).loss_sum;
    });
    std::fprintf(stderr, "step %d: %.3f s, loss %.4f\n", step, seconds, loss / double(batch.supervised()));
    if (step > 1) best = std::min(best, seconds);
  }
  const std::int64_t peak =
      device::process_peak_bytes();  // before the second measurement of products adds its own
  const double rate = std::max(rate_before, product_rate(*engine.context().kernels, s, m));
  const double tokens = double(s.rows * s.length) / best;
  const double flops = tokens * spec::training_flops_per_token(m, s.length);
  std::printf(
      "gpt2-124m %s %lld x %lld, %d threads: %.3f s/step, %.1f tokens/s, %.1f GFLOP/s = %.1f %% of oneDNN's "
      "%.1f on the "
      "same shapes; planned %s, arenas %s, process peak %s\n",
      name(s.dtype), (long long)s.rows, (long long)s.length, omp_get_max_threads(), best, tokens, flops / 1e9,
      100 * flops / rate, rate / 1e9, human_bytes(engine.plan().total()).c_str(),
      human_bytes(device::arena_bytes()).c_str(), human_bytes(peak).c_str());
  return 0;
}
