#include "exec/engine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/align.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "spec/rope.h"

namespace zt::exec {

std::int64_t HostBatch::supervised() const {
  return std::count_if(targets.begin(), targets.begin() + used(), [](std::int32_t t) { return t >= 0; });
}

std::int64_t computed_tokens(std::int64_t used, std::int64_t planned) {
  const std::int64_t step = round_up((planned + 31) / 32, 64);
  return std::min(planned, round_up(used, step));
}

void fill_rope_tables(const spec::ModelSpec& model, std::int64_t positions, device::Device& device,
                      const device::Arena& tables, layers::RunContext* run) {
  if (model.family != spec::Family::llama) return;
  const std::vector<double> frequencies = spec::inverse_frequencies(model, positions);
  const double factor = spec::rope_attention_factor(model);
  const std::int64_t half = model.head_size / 2;
  std::vector<float> cosines(static_cast<std::size_t>(positions * half)), sines(cosines.size());
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(p * half + i);
      cosines[at] = static_cast<float>(factor * std::cos(angle));
      sines[at] = static_cast<float>(factor * std::sin(angle));
    }
  }
  const auto lay = [&](const std::vector<float>& values, std::int64_t offset) {
    device.to_device(tables.at(offset), values.data(), static_cast<std::int64_t>(values.size()) * 4);
    return View(tables.as<float>(offset), positions, half);
  };
  run->cos_Pd2 = lay(cosines, 0);
  run->sin_Pd2 = lay(sines, tables.bytes() / 2);
}

static std::int64_t batch_slots(const plan::StepShape& shape) {
  return plan::batch_bytes(shape.eval_shape()) +
         (shape.training ? shape.micros * plan::batch_bytes(shape.train_shape()) : 0);
}

// The plan must know the bytes and the scratch that the options imply, whatever its own fields say.
static EngineOptions agreeing(EngineOptions options, const comm::Communicator& comm,
                              const kernels::Kernels& kernels) {
  if (options.shape.partition.ranks != comm.size())
    throw Error(Blame::bug,
                cat("a step planned for ", options.shape.partition.ranks, " ranks met ", comm.size()));
  options.shape.element_bytes = size_of(options.dtype);
  options.shape.grad_bytes = size_of(options.grad_dtype);
  options.shape.wire_bytes = size_of(options.wire);
  options.shape.policy.grads_apart = options.grad_dtype != Dtype::f32;
  options.shape.comm_bytes = comm.buffer_bytes();
  options.shape.kernel_bytes = kernels.held_bytes();
  options.lanes.threads = options.lanes.threads && comm.size() > 1;
  options.shape.gpu = !options.device->is_host();
  options.shape.dropout = options.dropout > 0.f;
  return options;
}

Engine::Engine(const spec::ModelSpec& model, const EngineOptions& options, comm::Communicator* comm)
    : model_(model),
      alone_(comm == nullptr ? comm::solo() : nullptr),
      comm_(comm == nullptr ? alone_.get() : comm),
      kernels_(options.kernels(options.dtype)),
      options_(agreeing(options, *comm_, *kernels_)),
      plan_(plan::plan_step(model_, options_.shape)),
      arena_(options_.device->claim(plan_.arena, "activations")),
      workspace_(options_.device->claim(plan_.workspace, "the workspace")),
      batches_(options_.device->claim(batch_slots(options_.shape), "batches")),
      tables_(options_.device->claim(plan::rope_table_bytes(model_, options_.shape.sequence_length),
                                     "rotary tables")),
      params_(model_, options_.dtype, options_.shape.training,
              {options_.shape.partition, comm_->rank(), options_.grad_dtype}, *options_.device) {
  require_same_lists();
  run_ = {kernels_.get(),         &model_, options.dtype, options.dropout, options.seed, {}, {},
          options.shape.selective};
  fill_rope_tables(model_, options.shape.sequence_length, *options_.device, tables_, &run_);
  reserve_bounds();
  blocks_ = make_model(run_);
  executor_ = std::make_unique<Executor>(run_, blocks_, params_, *comm_, options_.wire, arena_.at(0),
                                         workspace_.at(0), options_.shape.micros, options_.lanes);
}

// Every document may be a single token, and what is computed behind them is one more.
void Engine::reserve_bounds() {
  const plan::StepShape& shape = options_.shape;
  bounds_.resize(static_cast<std::size_t>(shape.training ? shape.micros : 0) + 1);
  for (auto& bounds : bounds_) bounds.reserve(static_cast<std::size_t>(shape.train_shape().tokens) + 2);
  bounds_.back().reserve(static_cast<std::size_t>(shape.eval_shape().tokens) + 2);
  ids_.reserve(static_cast<std::size_t>(std::max(shape.train_shape().tokens, shape.eval_shape().tokens)));
}

// Ranks that play different lists would wait for each other forever.
void Engine::require_same_lists() const {
  comm::require_same(*comm_, fingerprint(plan_.train) + fingerprint(plan_.eval), Blame::usage,
                     "planned different steps", "start every rank with the same recipe, model and program");
}

std::int64_t Engine::held_bytes() const {
  return arena_.bytes() + workspace_.bytes() + batches_.bytes() + tables_.bytes() + params_.bytes() +
         comm_->buffer_bytes() + kernels_->held_bytes();
}

void Engine::gather_weights() {
  const plan::Partition& split = options_.shape.partition;
  if (split.update_whole || !split.weights_whole) return;
  for (int b = 0; b < static_cast<int>(model_.blocks.size()); ++b)
    comm_->all_gather(params_.weights(b), params_.layout(b).slice() * size_of(params_.dtype()));
}

static void require_below(std::span<const std::int32_t> values, std::int64_t low, std::int64_t limit,
                          const char* what) {
  for (const std::int32_t value : values) {
    if (value < low || value >= limit)
      throw Error(Blame::bug,
                  cat("a batch holds the ", what, " ", value, ", outside ", low, " to ", limit - 1));
  }
}

// Kernels index tables with what a batch holds, so nothing that lies outside may reach them.
void Engine::require_sound(const HostBatch& batch, std::int64_t planned) const {
  const auto N = static_cast<std::size_t>(planned);
  if (batch.tokens.size() != N || batch.positions.size() != N || batch.targets.size() != N)
    throw Error(Blame::bug,
                cat("a batch of ", batch.tokens.size(), " tokens was handed to a step planned for ", N));
  if (batch.bounds.empty() || batch.bounds.front() != 0 || batch.used() > planned ||
      std::ranges::adjacent_find(batch.bounds, std::greater_equal()) != batch.bounds.end())
    throw Error(Blame::bug, cat("document bounds must rise from 0 to at most ", planned));
  const auto used = [&](const std::vector<std::int32_t>& values) {
    return std::span(values).first(static_cast<std::size_t>(batch.used()));
  };
  require_below(used(batch.tokens), 0, model_.vocab, "token");
  require_below(used(batch.positions), 0, options_.shape.sequence_length, "position");
  require_below(used(batch.targets), INT32_MIN, model_.vocab, "target");
  if (batch.places.empty()) return;
  if (batch.places.size() != N)
    throw Error(Blame::bug, cat("a batch of ", N, " tokens has ", batch.places.size(), " places"));
  require_below(used(batch.places), 0, batch.places_of_step ? INT32_MAX : planned, "place");
}

// Copies a batch to its permanent place: training's micro-batches come first, then evaluation's batch. What is
// computed behind its last token is one document that nothing is learnt from.
layers::BatchView Engine::load(const HostBatch& batch, std::size_t number, std::int64_t planned) {
  require_sound(batch, planned);
  const std::int64_t used = batch.used(), computed = computed_tokens(used, planned);
  const std::int64_t start =
      static_cast<std::int64_t>(number) * plan::batch_bytes(options_.shape.train_shape());
  const std::int64_t part = plan::batch_bytes({planned, 4, false}) / 3;
  std::byte* next = batches_.at(start);
  const auto lay = [&](const std::vector<std::int32_t>& values, std::int32_t filler) {
    std::byte* const at = std::exchange(next, next + part);
    ids_.assign(values.begin(), values.begin() + used);
    ids_.resize(static_cast<std::size_t>(computed), filler);
    options_.device->to_device(at, ids_.data(), computed * 4);
    return View(reinterpret_cast<std::int32_t*>(at), 1, computed);
  };
  layers::BatchView view;
  view.tokens_N = lay(batch.tokens, 0);
  view.positions_N = lay(batch.positions, 0);
  view.target_N = lay(batch.targets, -1);
  if (options_.shape.dropout && !batch.places.empty()) view.row_N = lay(batch.places, 0);
  bounds_[number].assign(batch.bounds.begin(), batch.bounds.end());
  if (computed > used) bounds_[number].push_back(static_cast<std::int32_t>(computed));
  view.bounds = bounds_[number];
  if (options_.shape.gpu) load_spans(view.bounds, next, next + part, &view);
  return view;
}

// The document of each token as two numbers, for devices that cannot read its bounds here.
void Engine::load_spans(std::span<const std::int32_t> bounds, std::byte* begin_at, std::byte* end_at,
                        layers::BatchView* view) {
  const auto lay = [&](std::byte* at, std::size_t side) {
    ids_.clear();
    for (std::size_t b = 1; b < bounds.size(); ++b)
      ids_.resize(static_cast<std::size_t>(bounds[b]), bounds[b - 1 + side]);
    const auto computed = static_cast<std::int64_t>(ids_.size());
    options_.device->to_device(at, ids_.data(), computed * 4);
    return View(reinterpret_cast<std::int32_t*>(at), 1, computed);
  };
  view->begin_N = lay(begin_at, 0);
  view->end_N = lay(end_at, 1);
}

StepResult Engine::play(const schedule::Schedule& list, std::span<const HostBatch> micros,
                        std::int64_t supervised, StepInput input) {
  if (static_cast<std::int64_t>(micros.size()) != options_.shape.micros || supervised < 1)
    throw Error(Blame::bug, cat("a step of ", options_.shape.micros, " micro-batches was given ",
                                micros.size(), " with ", supervised, " supervised tokens"));
  const plan::RunShape shape = options_.shape.train_shape();
  views_.clear();
  for (std::size_t m = 0; m < micros.size(); ++m) {
    views_.push_back(load(micros[m], m, shape.tokens));
    // Micro-batch m of rank r is number m x ranks + r of the step: dropout is the same for every number of ranks.
    const std::int64_t number = static_cast<std::int64_t>(m) * comm_->size() + comm_->rank();
    views_.back().first_row = micros[m].places_of_step ? 0 : number * shape.tokens;
  }
  input.micros = views_;
  input.supervised = supervised;
  return executor_->run(list, input);
}

StepResult Engine::train_step(std::span<const HostBatch> micros, std::int64_t supervised, std::uint32_t step,
                              const kernels::AdamW& optimizer, double max_grad_norm, double loss_scale,
                              double max_loss) {
  StepInput input;
  input.step = step;
  input.trace = std::exchange(next_trace_, nullptr);
  input.optimizer = optimizer;
  input.max_grad_norm = max_grad_norm;
  input.loss_scale = loss_scale;
  input.max_loss = max_loss;
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
  const std::int64_t planned = options_.shape.eval_shape().tokens;
  if (!token_losses.empty() && static_cast<std::int64_t>(token_losses.size()) != planned)
    throw Error(Blame::bug, cat(token_losses.size(), " losses for ", planned, " planned tokens"));
  const layers::BatchView view = load(batch, bounds_.size() - 1, planned);
  std::ranges::fill(token_losses, 0.f);
  StepInput input;
  input.micros = {&view, 1};
  if (!token_losses.empty()) input.token_losses = token_loss_place(token_losses);
  const double loss = executor_->run(plan_.eval, input).loss_sum;
  if (!token_losses.empty() && input.token_losses != token_losses.data())
    options_.device->to_host(token_losses.data(), input.token_losses, view.tokens_N.cols * 4);
  return loss;
}

// The caller's memory where the device writes to it, else memory of the device, claimed when it is first wanted.
float* Engine::token_loss_place(std::span<float> token_losses) {
  if (options_.device->is_host()) return token_losses.data();
  if (token_losses_.bytes() == 0)
    token_losses_ =
        options_.device->claim(static_cast<std::int64_t>(token_losses.size_bytes()), "losses of tokens");
  return token_losses_.as<float>();
}

}  // namespace zt::exec
