// Whole training steps of the engine on one GPU: tokens/s, MFU, and memory beside the plan.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "common.h"
#include "device/stream.h"
#include "gpu.h"
#include "spec/flops.h"

namespace zt::bench {
namespace {

struct Model {
  std::string name;
  nlohmann::json config;
  std::int64_t rows, length;  // of a micro-batch, at most
  std::int64_t micros;        // of a step
  schedule::Recompute recompute;
};

nlohmann::json llama(int hidden, int intermediate, int layers, int heads, int kv_heads, int vocab,
                     bool tied) {
  return {{"model_type", "llama"},        {"hidden_size", hidden},
          {"num_hidden_layers", layers},  {"intermediate_size", intermediate},
          {"num_attention_heads", heads}, {"num_key_value_heads", kv_heads},
          {"vocab_size", vocab},          {"max_position_embeddings", 8192},
          {"tie_word_embeddings", tied}};
}

nlohmann::json gpt2(int hidden, int layers, int heads, int vocab) {
  return {{"model_type", "gpt2"}, {"vocab_size", vocab}, {"n_positions", 1024},
          {"n_embd", hidden},     {"n_layer", layers},   {"n_head", heads}};
}

// As Qwen2.5 7B.
nlohmann::json qwen2() {
  nlohmann::json config = llama(3584, 18944, 28, 28, 4, 152064, false);
  config["model_type"] = "qwen2";
  return config;
}

// Shapes of GPT-2 (Radford et al. 2019), of Llama 3.2 1B, Llama 3 8B and Qwen2.5 7B. A step of the large ones has several
// micro-batches, as training has: the update reads and writes all their state once a step.
std::vector<Model> models(bool tiny) {
  using schedule::Recompute;
  std::vector<Model> all;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    if (tiny) {
      all.push_back({"gpt2-124m", gpt2(128, 2, 2, 51), 2, 32, 1, recompute});
      all.push_back({"llama-1b", llama(128, 96, 2, 2, 1, 51, true), 1, 32, 2, recompute});
      continue;
    }
    const bool full = recompute == Recompute::full;
    all.push_back({"gpt2-124m", gpt2(768, 12, 12, 50257), 32, 1024, 4, recompute});
    all.push_back({"llama-1b", llama(2048, 8192, 16, 32, 8, 128256, true), 4, 4096, 4, recompute});
    all.push_back(
        {"llama-8b", llama(4096, 14336, 32, 32, 8, 128256, false), full ? 2 : 1, 4096, 8, recompute});
  }
  if (!tiny) all.push_back({"qwen2.5-7b", qwen2(), 8, 1024, 8, Recompute::full});
  return all;
}

plan::StepShape shape_of(const Model& m) {
  plan::StepShape shape;
  shape.sequence_length = m.length;
  shape.rows = m.rows;
  shape.micros = m.micros;
  shape.policy.recompute = m.recompute;
  return shape;
}

std::int64_t scratch_bytes(bool tiny) { return tiny ? 1 << 19 : kernels::CudaKernels::kScratchBytes; }

// As the engine plans it.
std::int64_t planned_bytes(const Model& m, bool tiny) {
  plan::StepShape shape = shape_of(m);
  shape.element_bytes = shape.grad_bytes = 2;
  shape.policy.grads_apart = shape.gpu = true;
  shape.kernel_bytes = scratch_bytes(tiny);
  return plan::plan_step(spec::from_config(m.config, m.name), shape).total();
}

// What CUDA keeps for kernels and cuBLASLt for itself, about.
constexpr std::int64_t kLibraries = std::int64_t{1} << 30;

// With as many of the rows asked for as `free_bytes` hold, then with shorter ones. Of an 8B model whose state takes 120 GiB,
// 4,096 tokens without recomputation miss the 139 GiB of an H200 by little.
Model fitted(Model m, std::int64_t free_bytes) {
  while (planned_bytes(m, false) + kLibraries > free_bytes) {
    std::int64_t& longer = m.rows > 1 ? m.rows : m.length;
    if (m.rows == 1 && m.length <= 1024) break;
    longer /= 2;
  }
  return m;
}

exec::EngineOptions options_of(Gpu& gpu, const Model& m) {
  exec::EngineOptions options;
  options.shape = shape_of(m);
  options.dtype = options.grad_dtype = Dtype::bf16;
  options.device = &gpu.device();
  const std::int64_t scratch = scratch_bytes(gpu.tiny());
  options.kernels = [scratch](Dtype) { return std::make_unique<kernels::CudaKernels>(1, scratch); };
  return options;
}

struct Measured {
  Timing time;             // of a step
  double loss = 0;         // of the first step
  std::int64_t taken = 0;  // bytes of the GPU
};

// Two steps that aren't counted, then as many as take some seconds, each between two events.
Measured measure(Gpu& gpu, exec::Engine& engine, const Model& m, std::int64_t before) {
  std::vector<exec::HostBatch> batches;
  std::int64_t supervised = 0;
  for (std::int64_t i = 0; i < m.micros; ++i) {
    batches.push_back(random_batch(m.rows, m.length, engine.model(), std::uint32_t(i)));
    supervised += batches.back().supervised();
  }
  kernels::AdamW adamw{.lr = 1e-4f};
  adamw.t = 0;
  Measured result;
  const auto step = [&] {
    ++adamw.t;
    const auto r = engine.train_step(batches, supervised, std::uint32_t(adamw.t), adamw, 1.0);
    if (adamw.t == 1) result.loss = r.loss_sum / double(supervised);
    result.taken = std::max(result.taken, taken_bytes() - before);
  };
  step();
  const int steps = gpu.tiny() ? 1 : int(std::clamp(15 / gpu.seconds_once(step), 5.0, 50.0));
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(gpu.seconds_once(step));
  result.time = timing_of(seconds);
  return result;
}

void print(const exec::Engine& engine, const Model& m, const Measured& r, const Ceilings& ceilings,
           double peak) {
  const spec::ModelSpec& model = engine.model();
  const double tokens = double(m.micros * m.rows * m.length) / r.time.seconds;
  const double per_token = spec::training_flops_per_token(model, m.length), rate = tokens * per_token;
  fmt::print("{} bf16, a step of {} micro-batches of {} x {} tokens, recompute {}: loss {:.3f}\n", m.name,
             m.micros, m.rows, m.length, schedule::name(engine.shape().policy), r.loss);
  fmt::print("  {:.1f} ms a step (spread {:.1f} %), {:.0f} tokens/s\n", 1e3 * r.time.seconds,
             100 * r.time.spread, tokens);
  // Without position embeddings, as in the formula.
  const double attention = 12.0 * model.layers * double(model.q_size()) * double(m.length);
  fmt::print(
      "  FLOPs a token = 6 N + 12 L H Q T = {:.4g} (N {:.0f}, L {}, H Q {}, T {}; without recomputation)\n",
      per_token, (per_token - attention) / 6, model.layers, model.q_size(), m.length);
  if (peak > 0)
    fmt::print("  MFU = FLOPs a token x tokens/s / data sheet = {:.1f} TFLOP/s / {:.1f} = {:.1f} %\n",
               tera(rate), tera(peak), 100 * rate / peak);
  fmt::print("  share of the matrix ceiling {:.1f} %\n", 100 * rate / ceilings.flops);
  const std::int64_t planned = engine.plan().total();
  fmt::print("  memory: the GPU's own count {} ({}), plan {} ({}), beyond it {}\n", r.taken,
             human_bytes(r.taken), planned, human_bytes(planned), r.taken - planned);
}

// Random weights know nothing, so the loss is about the vocabulary's logarithm; where bytes are counted exactly, only a few
// results lie beside the plan.
void require_sound(const Gpu& gpu, const exec::Engine& engine, const Model& m, const Measured& r) {
  if (engine.plan().total() != planned_bytes(m, gpu.tiny()))
    throw Error(Blame::bug, cat("the engine plans ", engine.plan().total(), " bytes, --what plans says ",
                                planned_bytes(m, gpu.tiny())));
  const double know_nothing = std::log(double(engine.model().vocab));
  if (!(std::abs(r.loss - know_nothing) < 2))
    throw Error(Blame::bug, cat("the loss is ", r.loss, ", random weights give about ", know_nothing));
  const std::int64_t beyond = r.taken - engine.plan().total();
  if (gpu.counts_exactly() && (beyond < 0 || beyond > 4096))
    throw Error(Blame::bug, cat("the plan misses the memory of a step by ", beyond, " bytes"));
}

void measure_model(Gpu& gpu, const Model& m, const Ceilings& ceilings, double peak) {
  const std::int64_t before = taken_bytes();
  const spec::ModelSpec model = spec::from_config(m.config, m.name);
  exec::Engine engine(model, options_of(gpu, m));
  shard::initialise(engine.params(), model, 1);
  const Measured measured = measure(gpu, engine, m, before);
  print(engine, m, measured, ceilings, peak);
  require_sound(gpu, engine, m, measured);
}

std::vector<Model> asked_for(const std::string& only, bool tiny) {
  std::vector<Model> all = models(tiny);
  if (!only.empty()) std::erase_if(all, [&](const Model& m) { return m.name != only; });
  if (all.empty())
    throw Error(Blame::usage, cat("no model is called ", only),
                "--model takes gpt2-124m, llama-1b, llama-8b or qwen2.5-7b");
  return all;
}

}  // namespace

void print_plans(const std::string& only) {
  for (const Model& m : asked_for(only, false)) {
    const std::int64_t bytes = planned_bytes(m, false);
    fmt::print("{}, {} x {} tokens, {} micro-batches, recompute {}: {} bytes ({})\n", m.name, m.rows,
               m.length, m.micros, schedule::name({.recompute = m.recompute}), bytes, human_bytes(bytes));
  }
}

// What doesn't fit is told, and the others go on.
void measure_steps(Gpu& gpu, const Ceilings& ceilings, double peak, const std::string& only) {
  fmt::print(
      "\ntraining steps: weights and gradients bf16, master weights and moments fp32, gradients clipped\n");
  for (const Model& wanted : asked_for(only, gpu.tiny())) {
    const Model m = gpu.tiny() ? wanted : fitted(wanted, free_bytes());
    try {
      measure_model(gpu, m, ceilings, peak);
    } catch (const Error& e) {
      if (e.blame() != Blame::machine) throw;
      fmt::print("{}, recompute {}: not measured: {}\n", m.name, schedule::name({.recompute = m.recompute}),
                 e.what());
    }
  }
}

}  // namespace zt::bench
