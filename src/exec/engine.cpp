#include "exec/engine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "base/error.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "spec/rope.h"

namespace zt::exec {

std::int64_t HostBatch::supervised() const {
  return std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; });
}

void fill_rope_tables(const spec::ModelSpec& model, std::int64_t positions, const device::Arena& tables,
                      layers::RunContext* run) {
  if (model.family != spec::Family::llama) return;
  const std::vector<double> frequencies = spec::inverse_frequencies(model, positions);
  const double factor = spec::rope_attention_factor(model);
  const std::int64_t half = model.head_size / 2;
  float* const cosines = tables.as<float>(0);
  float* const sines = tables.as<float>(tables.bytes() / 2);
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
      cosines[p * half + i] = static_cast<float>(factor * std::cos(angle));
      sines[p * half + i] = static_cast<float>(factor * std::sin(angle));
    }
  }
  run->cos_Pd2 = View(cosines, positions, half);
  run->sin_Pd2 = View(sines, positions, half);
}

static std::int64_t batch_slots(const plan::StepShape& shape) {
  return plan::batch_bytes(shape.eval_shape()) +
         (shape.training ? shape.micros * plan::batch_bytes(shape.train_shape()) : 0);
}

// The plan must know the bytes and the scratch that the options imply, whatever its own fields say.
static EngineOptions agreeing(EngineOptions options, const comm::Communicator& comm) {
  if (options.shape.partition.ranks != comm.size())
    throw Error(Blame::bug,
                cat("a step planned for ", options.shape.partition.ranks, " ranks met ", comm.size()));
  options.shape.element_bytes = size_of(options.dtype);
  options.shape.grad_bytes = size_of(options.grad_dtype);
  options.shape.wire_bytes = size_of(options.wire);
  options.shape.policy.grads_apart = options.grad_dtype != Dtype::f32;
  options.shape.comm_bytes = comm.buffer_bytes();
  options.shape.kernel_bytes = kernels::tile_bytes(options.dtype);
  options.lanes.threads = options.lanes.threads && comm.size() > 1;
  options.shape.dropout = options.dropout > 0.f;
  return options;
}

Engine::Engine(const spec::ModelSpec& model, const EngineOptions& options, comm::Communicator* comm)
    : model_(model),
      alone_(comm == nullptr ? comm::solo() : nullptr),
      comm_(comm == nullptr ? alone_.get() : comm),
      options_(agreeing(options, *comm_)),
      plan_(plan::plan_step(model_, options_.shape)),
      kernels_(kernels::make_cpu_kernels(options_.dtype)),
      arena_(plan_.arena, "activations"),
      workspace_(plan_.workspace, "the workspace"),
      batches_(batch_slots(options_.shape), "batches"),
      tables_(plan::rope_table_bytes(model_, options_.shape.sequence_length), "rotary tables"),
      params_(model_, options_.dtype, options_.shape.training,
              {options_.shape.partition, comm_->rank(), options_.grad_dtype}) {
  require_same_lists();
  run_ = {kernels_.get(),         &model_, options.dtype, options.dropout, options.seed, {}, {},
          options.shape.selective};
  fill_rope_tables(model_, options.shape.sequence_length, tables_, &run_);
  blocks_ = make_model(run_);
  executor_ = std::make_unique<Executor>(run_, blocks_, params_, *comm_, options_.wire, arena_.at(0),
                                         workspace_.at(0), options_.lanes);
}

// Ranks that play different lists would wait for each other forever.
void Engine::require_same_lists() const {
  comm::require_same(*comm_, fingerprint(plan_.train) + fingerprint(plan_.eval), Blame::usage,
                     "planned different steps", "start every rank with the same recipe, model and program");
}

std::int64_t Engine::held_bytes() const {
  return arena_.bytes() + workspace_.bytes() + batches_.bytes() + tables_.bytes() + params_.bytes() +
         comm_->buffer_bytes() + kernels_->held_tile_bytes();
}

void Engine::gather_weights() {
  const plan::Partition& split = options_.shape.partition;
  if (split.update_whole || !split.weights_whole) return;
  for (int b = 0; b < static_cast<int>(model_.blocks.size()); ++b)
    comm_->all_gather(params_.weights(b), params_.layout(b).slice() * size_of(params_.dtype()));
}

static void require_below(const std::vector<std::int32_t>& values, std::int64_t low, std::int64_t limit,
                          const char* what) {
  for (const std::int32_t value : values) {
    if (value < low || value >= limit)
      throw Error(Blame::bug,
                  cat("a batch holds the ", what, " ", value, ", outside ", low, " to ", limit - 1));
  }
}

// Kernels index tables with what a batch holds, so nothing that lies outside may reach them.
void Engine::require_sound(const HostBatch& batch, std::int64_t tokens) const {
  const auto N = static_cast<std::size_t>(tokens);
  if (batch.tokens.size() != N || batch.positions.size() != N || batch.targets.size() != N)
    throw Error(Blame::bug,
                cat("a batch of ", batch.tokens.size(), " tokens was handed to a step planned for ", N));
  if (batch.bounds.empty() || batch.bounds.front() != 0 || batch.bounds.back() != tokens ||
      std::ranges::adjacent_find(batch.bounds, std::greater_equal()) != batch.bounds.end())
    throw Error(Blame::bug, cat("document bounds must rise from 0 to ", tokens));
  require_below(batch.tokens, 0, model_.vocab, "token");
  require_below(batch.positions, 0, options_.shape.sequence_length, "position");
  require_below(batch.targets, INT32_MIN, model_.vocab, "target");
}

// Copies a batch to its permanent place, `slot` bytes from the start: training's micro-batches, then
// evaluation's.
layers::BatchView Engine::load(const HostBatch& batch, std::int64_t slot, std::int64_t tokens) {
  require_sound(batch, tokens);
  const std::int64_t part = plan::batch_bytes({tokens, 4, false}) / 3;
  const auto place = [&](const std::vector<std::int32_t>& values, std::int64_t number) {
    auto* const at = batches_.as<std::int32_t>(slot + number * part);
    std::ranges::copy(values, at);
    return View(at, 1, tokens);
  };
  return {place(batch.tokens, 0), place(batch.positions, 1), place(batch.targets, 2), batch.bounds, 0};
}

StepResult Engine::play(const schedule::Schedule& list, std::span<const HostBatch> micros,
                        std::int64_t supervised, StepInput input) {
  if (static_cast<std::int64_t>(micros.size()) != options_.shape.micros || supervised < 1)
    throw Error(Blame::bug, cat("a step of ", options_.shape.micros, " micro-batches was given ",
                                micros.size(), " with ", supervised, " supervised tokens"));
  const plan::RunShape shape = options_.shape.train_shape();
  views_.clear();
  for (std::size_t m = 0; m < micros.size(); ++m) {
    views_.push_back(load(micros[m], static_cast<std::int64_t>(m) * plan::batch_bytes(shape), shape.tokens));
    // Micro-batch m of rank r is number m x ranks + r of the step: dropout is the same for every number of ranks.
    const std::int64_t number = static_cast<std::int64_t>(m) * comm_->size() + comm_->rank();
    views_.back().first_row = number * shape.tokens;
  }
  input.micros = views_;
  input.supervised = supervised;
  return executor_->run(list, input);
}

StepResult Engine::train_step(std::span<const HostBatch> micros, std::int64_t supervised, std::uint32_t step,
                              const kernels::AdamW& optimizer, double max_grad_norm, double loss_scale) {
  StepInput input;
  input.step = step;
  input.optimizer = optimizer;
  input.max_grad_norm = max_grad_norm;
  input.loss_scale = loss_scale;
  return play(plan_.train, micros, supervised, input);
}

StepResult Engine::gradients(std::span<const HostBatch> micros, std::int64_t supervised, std::uint32_t step) {
  schedule::Schedule without_update = plan_.train;
  std::erase_if(without_update.ops,
                [](const schedule::Op& op) { return op.kind == schedule::OpKind::update; });
  params_.clear_grads();
  StepInput input;
  input.step = step;
  return play(without_update, micros, supervised, input);
}

double Engine::evaluate(const HostBatch& batch, std::span<float> token_losses) {
  const plan::StepShape& shape = options_.shape;
  const std::int64_t slot = shape.training ? shape.micros * plan::batch_bytes(shape.train_shape()) : 0;
  const layers::BatchView view = load(batch, slot, shape.eval_shape().tokens);
  StepInput input;
  input.micros = {&view, 1};
  input.token_losses = token_losses;
  return executor_->run(plan_.eval, input).loss_sum;
}

}  // namespace zt::exec
