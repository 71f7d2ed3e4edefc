#include "measure/stopwatch.h"

#include <doctest/doctest.h>

#include "exec/engine.h"
#include "measure/probes.h"
#include "support/tiny_models.h"

namespace zt::measure {
namespace {

using plan::Kernel;

exec::HostBatch batch_of(const spec::ModelSpec& model, std::int64_t rows, std::int64_t length) {
  exec::HostBatch batch;
  batch.bounds.push_back(0);
  for (std::int64_t i = 0; i < rows * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(i * 7 % model.vocab));
    batch.targets.push_back(static_cast<std::int32_t>(i * 5 % model.vocab));
    batch.positions.push_back(static_cast<std::int32_t>(i % length));
    if ((i + 1) % length == 0) batch.bounds.push_back(static_cast<std::int32_t>(i + 1));
  }
  return batch;
}

// What a plan says of a step, by size. An optimizer's calls are counted over all pieces of a block, and what isn't done by
// kernels is left out.
bool by_pieces(Kernel kernel) { return kernel == Kernel::adamw || kernel == Kernel::sum_squares; }
bool no_kernel(Kernel kernel) {
  return kernel == Kernel::clear || kernel == Kernel::add || kernel == Kernel::bias ||
         kernel == Kernel::cross_entropy;
}

struct Counts {
  std::map<Size, std::int64_t> calls;
  std::map<Kernel, std::int64_t> elements;
  void add(const Size& size, std::int64_t calls_) {
    if (no_kernel(size.kernel)) return;
    if (by_pieces(size.kernel))
      elements[size.kernel] += size.m * size.n * calls_;
    else
      calls[size] += calls_;
  }
};

}  // namespace

TEST_CASE("stopwatch: a step calls the kernels that its plan says, by size and number") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const bool selective : {false, true}) {
      for (const auto recompute : {schedule::Recompute::none, schedule::Recompute::full}) {
        for (const Probe& probe : probes(true)) {
          CAPTURE(name(dtype));
          CAPTURE(selective);
          CAPTURE(spec::name(probe.family));
          const spec::ModelSpec model = model_of(probe);
          Times times;
          exec::EngineOptions o;
          o.shape.sequence_length = probe.length;
          o.shape.rows = probe.rows;
          o.shape.micros = 2;
          o.shape.selective = selective;
          o.shape.policy.recompute = recompute;
          o.dtype = dtype;
          o.kernels = [&](Dtype d) {
            return std::make_unique<Stopwatch>(kernels::make_cpu_kernels(d), times);
          };
          exec::Engine engine(model, o);
          shard::initialise(engine.params(), model, 1);
          const std::vector micros(2, batch_of(model, probe.rows, probe.length));
          const exec::StepResult result = engine.train_step(micros, 2 * probe.tokens(), 1, {}, 1.0);
          REQUIRE(result.finite);

          Counts planned, called;
          plan::StepShape shape = o.shape;
          shape.element_bytes = size_of(dtype);
          const schedule::Schedule& list = engine.plan().train;
          for (const schedule::Op& op : list.ops)
            for (const plan::Work& w : plan::work_of(list, op, model, shape))
              planned.add({w.kernel, w.m, w.n, w.k}, w.calls);
          for (const auto& [size, time] : times) {
            CHECK(time.seconds > 0);
            called.add(size, time.calls);
          }
          CHECK(planned.elements == called.elements);
          for (const auto& [size, calls] : planned.calls) {
            CAPTURE(static_cast<int>(size.kernel));
            CAPTURE(size.m);
            CAPTURE(size.n);
            CAPTURE(size.k);
            CHECK(called.calls[size] == calls);
          }
          CHECK(called.calls.size() == planned.calls.size());
        }
      }
    }
  }
}

}  // namespace zt::measure
