#include "measure/kernel_rates.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "exec/engine.h"
#include "measure/passes.h"
#include "measure/probes.h"
#include "measure/rounds.h"
#include "measure/stopwatch.h"

namespace zt::measure {

Dtype tensor_dtype(recipe::ModelDtype dtype) {
  switch (dtype) {
    case recipe::ModelDtype::float32: return Dtype::f32;
    case recipe::ModelDtype::bfloat16: return Dtype::bf16;
    case recipe::ModelDtype::float16: return Dtype::f16;
  }
  return Dtype::f32;
}

namespace {

Pace pace_of(const Options& options) { return options.quick ? Pace{0.005, 3} : Pace{}; }

exec::EngineOptions engine_options(const Probe& p, Dtype dtype, Times& times) {
  exec::EngineOptions o;
  o.shape.sequence_length = p.length;
  o.shape.rows = o.shape.eval_rows = p.rows;
  o.dtype = dtype;
  o.kernels = [&times](Dtype d) { return std::make_unique<Stopwatch>(kernels::make_cpu_kernels(d), times); };
  return o;
}

// Seconds a call, by size: each rank trains the probe by itself, all at the same time.
void time_probe(comm::Communicator& ranks, const Probe& probe, Dtype dtype, const Pace& pace,
                std::map<Size, double>& seconds) {
  const spec::ModelSpec model = model_of(probe);
  Times times;
  exec::Engine engine(model, engine_options(probe, dtype, times));
  shard::initialise(engine.params(), model, 1);
  const exec::HostBatch batch = random_batch(probe);
  std::uint32_t step = 0;
  std::map<Size, std::vector<double>> rounds;
  play_rounds(
      ranks, pace,
      [&] {
        ++step;
        engine.train_step({&batch, 1}, batch.supervised(), step, kernels::AdamW{.t = step}, 1.0);
      },
      [&] { times.clear(); },
      [&](double) {
        for (const auto& [size, time] : times)
          rounds[size].push_back(time.seconds / static_cast<double>(time.calls));
      });
  std::vector<double> mine;
  for (const auto& [size, values] : rounds) mine.push_back(median(values));
  const std::vector<double> mean = mean_over_ranks(ranks, mine);
  auto value = mean.begin();
  for (const auto& [size, values] : rounds) seconds[size] = *value++;
}

// Bytes of an element as plan's own lists count them.
int element_bytes(plan::Kernel kernel, Dtype dtype) {
  const bool gradients = kernel == plan::Kernel::clear || kernel == plan::Kernel::add;
  return gradients ? 4 : size_of(dtype);
}

}  // namespace

std::vector<plan::Rate> kernel_rates(comm::Communicator& ranks, recipe::ModelDtype dtype, double call_seconds,
                                     const Options& options) {
  const Dtype stored = tensor_dtype(dtype);
  std::map<Size, double> seconds;
  time_passes(ranks, stored, options.quick, seconds);
  const std::vector<Probe> list = probes(options.quick);
  for (std::size_t i = 0; i < list.size(); ++i) {
    options.say(cat(name(stored), ": model ", i + 1, " of ", list.size()));
    time_probe(ranks, list[i], stored, pace_of(options), seconds);
  }
  std::vector<plan::Rate> rates;
  for (const auto& [size, time] : seconds) {
    const plan::Work work =
        plan::work_of(size.kernel, size.m, size.n, size.k, element_bytes(size.kernel, stored));
    const double net = std::max(time - call_seconds, time / 10);
    rates.push_back({size.kernel, dtype, size.m, size.n, size.k, work.amount() / net});
  }
  return rates;
}

double measure_call_seconds(comm::Communicator& ranks, const Options& options) {
  const auto kernels = kernels::make_cpu_kernels();
  std::vector<float> x(16), y(16);
  const auto size = static_cast<std::int64_t>(x.size());
  return seconds_of(ranks, pace_of(options),
                    [&] { kernels->cast({View(x.data(), 1, size), View(y.data(), 1, size)}); });
}

double measure_memory_bandwidth(comm::Communicator& ranks, const Options& options) {
  const std::int64_t n = options.quick ? 1 << 20 : 1 << 24;
  const device::Arena memory(n * 8, "measuring memory");
  const auto kernels = kernels::make_cpu_kernels();
  const View x(memory.as<float>(), 1, n), y(memory.as<float>(n * 4), 1, n);
  return static_cast<double>(n * 8) / seconds_of(ranks, pace_of(options), [&] { kernels->cast({x, y}); });
}

}  // namespace zt::measure
