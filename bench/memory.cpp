// Memory of activations under each recompute policy over 16, 36 and 64 layers of GPT-2's width, from the plan
// alone; then what the policies cost in time, from real steps of a small model.
// Usage: memory [--rows 1] [--length 1024] [--dtype f32|bf16] [--steps 5]; --steps 0 leaves the steps out.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "base/text.h"
#include "common.h"
#include "exec/engine.h"

namespace {

using namespace zt;
using namespace zt::bench;
using schedule::Recompute;

struct Policy {
  const char* name;
  Recompute recompute;
  bool selective;
};
constexpr Policy kPolicies[] = {{"none", Recompute::none, false},
                                {"selective", Recompute::none, true},
                                {"full", Recompute::full, false},
                                {"sqrt", Recompute::sqrt, false}};

spec::ModelSpec gpt2(int width, int heads, int layers, std::int64_t length) {
  const nlohmann::json config = {{"model_type", "gpt2"}, {"n_embd", width},       {"n_head", heads},
                                 {"n_layer", layers},    {"n_positions", length}, {"vocab_size", 1024}};
  return spec::from_config(config, "gpt2");
}

plan::StepShape shape_of(const Settings& s, const Policy& policy) {
  plan::StepShape shape;
  shape.rows = s.rows;
  shape.sequence_length = s.length;
  shape.element_bytes = size_of(s.dtype);
  shape.policy.recompute = policy.recompute;
  shape.selective = policy.selective;
  return shape;
}

// Chen et al. 2016, section 4: n layers in segments of k hold n/k + k inputs, at least 2 sqrt(n).
void print_memory(const Settings& s) {
  std::printf("activations (arena) of a training step, GPT-2 blocks of width 768, %s, %lld x %lld tokens\n",
              name(s.dtype), (long long)s.rows, (long long)s.length);
  std::printf("%6s  %-9s %14s  %10s  %8s  %16s  %22s\n", "layers", "recompute", "bytes", "", "of none",
              "MiB / sqrt(L)", "/ (ceil(L/k) + k) inputs");
  const double input = double(s.rows * s.length * 768 * size_of(s.dtype));
  for (const int layers : {16, 36, 64}) {
    double none = 0;
    for (const Policy& policy : kPolicies) {
      const plan::StepPlan plan = plan_step(gpt2(768, 12, layers, s.length), shape_of(s, policy));
      const auto bytes = double(plan.train.arena_bytes);
      if (none == 0) none = bytes;
      const double k = std::ceil(std::sqrt(layers));
      std::printf("%6d  %-9s %14s  %10s  %7.1f%%  %16.1f  %22.2f\n", layers, policy.name,
                  with_commas(plan.train.arena_bytes).c_str(), human_bytes(plan.train.arena_bytes).c_str(),
                  100 * bytes / none, bytes / std::sqrt(layers) / (1 << 20),
                  bytes / input / (std::ceil(layers / k) + k));
    }
  }
}

// Of this process, all threads: what other processes do counts less than in seconds on the wall.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// The policies take turns, so that whatever else the machine does meets all of them; the best step counts.
void print_time(const Settings& s) {
  constexpr std::int64_t kRows = 4, kLength = 256;
  const spec::ModelSpec model = gpt2(384, 6, 9, kLength);
  const exec::HostBatch batch = random_batch(kRows, kLength, model);
  std::vector<std::unique_ptr<exec::Engine>> engines;
  for (const Policy& policy : kPolicies) {
    exec::EngineOptions options;
    options.shape = shape_of({kRows, kLength, 0, s.dtype}, policy);
    options.dtype = s.dtype;
    engines.push_back(std::make_unique<exec::Engine>(model, options));
    shard::initialise(engines.back()->params(), model, 1);
  }
  std::vector<double> best(engines.size(), 1e30), loss(engines.size());
  kernels::AdamW adamw;
  adamw.lr = 1e-4f;
  for (int step = 1; step <= s.steps + 1; ++step)
    for (std::size_t i = 0; i < engines.size(); ++i) {
      adamw.t = step;
      const double start = cpu_seconds();
      loss[i] =
          engines[i]->train_step({&batch, 1}, batch.supervised(), std::uint32_t(step), adamw, 1.0).loss_sum;
      if (step > 1) best[i] = std::min(best[i], cpu_seconds() - start);
    }
  std::printf("\nsteps of a GPT-2 of 9 layers and width 384, %s, %lld x %lld tokens, %d threads\n",
              name(s.dtype), (long long)kRows, (long long)kLength, omp_get_max_threads());
  std::printf("%-9s %14s  %10s  %8s  %s\n", "recompute", "activations", "CPU s/step", "of none", "last loss");
  for (std::size_t i = 0; i < engines.size(); ++i)
    std::printf("%-9s %14s  %10.4f  %7.1f%%  %.9f%s\n", kPolicies[i].name,
                human_bytes(engines[i]->plan().arena).c_str(), best[i], 100 * best[i] / best[0],
                loss[i] / double(batch.supervised()), loss[i] == loss[0] ? "" : "  NOT THE SAME BITS");
}

}  // namespace

int main(int argc, char** argv) {
  const Settings s = settings(Arguments(argc, argv), {1, 1024, 5, Dtype::f32});
  print_memory(s);
  if (s.steps > 0) print_time(s);
  return 0;
}
