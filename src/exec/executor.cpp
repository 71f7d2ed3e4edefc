#include "exec/executor.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace zt::exec {

using schedule::Op;
using schedule::OpKind;
using schedule::SlotKind;

Model make_model(const layers::RunContext& run) {
  Model model;
  model.blocks.push_back(layers::make_embedding(run));
  for (int i = 0; i < run.model->layers; ++i) model.blocks.push_back(layers::make_transformer_block(run, i));
  model.head = std::make_unique<layers::Head>(run);
  return model;
}

Executor::Executor(const layers::RunContext& run, const Model& model, shard::ParamStore& store,
                   comm::Communicator& comm, Dtype wire, std::byte* arena, std::byte* workspace,
                   std::int64_t micros, LaneOptions lanes)
    : run_(run),
      model_(model),
      store_(store),
      device_(store.device()),
      comm_(comm),
      wire_(wire),
      poison_(lanes.poison),
      arena_(arena),
      workspace_(workspace),
      results_(store, micros),
      sums_(run.model->blocks.size() + 1),
      all_sums_(sums_.size() * static_cast<std::size_t>(comm.size())),
      lanes_(
          std::move(lanes), [this](std::exception_ptr why) { comm_.abandon(std::move(why)); },
          store.device().queues()) {}

StepResult Executor::run(const schedule::Schedule& schedule, const StepInput& input) {
  schedule_ = &schedule;
  input_ = &input;
  result_ = {};
  results_.clear();
  result_.exposed_comm_seconds =
      lanes_.run(schedule, [this](const Op& op, int index) { play(op, index); }, input.trace);
  if (schedule.kind == schedule::StepKind::eval) result_.loss_sum = results_.loss();
  comm_.doing({.step = input.step});
  return result_;
}

// All bits set is NaN in every float format.
void Executor::poison_freed(const Op& op) const {
  for (const schedule::SlotId id : op.frees) {
    const schedule::Slot& slot = schedule_->slots[static_cast<std::size_t>(id)];
    device_.fill(arena_ + slot.offset, 0xff, slot.bytes);
  }
}

void Executor::play(const Op& op, int index) {
  comm_.doing(comm::Place::of(name(op), input_->step, index));
  try {
    dispatch(op);
    if (poison_) poison_freed(op);
  } catch (const Error& e) {
    throw Error(e.blame(),
                cat(input_->step > 0 ? cat("step ", input_->step) : "evaluation", " stopped at #", index,
                    " `", name(op), "`: ", e.problem()),
                e.hint());
  }
}

// No `default:` on purpose: a new OpKind must not compile until it is handled here.
void Executor::dispatch(const Op& op) {
  switch (op.kind) {
    case OpKind::forward: return forward(op, false);
    case OpKind::recompute: return forward(op, true);
    case OpKind::head: return head(op);
    case OpKind::backward: return backward(op);
    case OpKind::gather: return gather(op);
    case OpKind::accumulate: return accumulate(op);
    case OpKind::reduce: return reduce(op);
    case OpKind::norm: return op.block >= 0 ? norm_of_block(op) : norm_of_all();
    case OpKind::update: return update(op);
  }
}

std::byte* Executor::address(const Op& op, SlotKind kind, int block) const {
  const schedule::SlotId id = find_slot(*schedule_, op, kind, block);
  return id == schedule::kNoSlot ? nullptr : arena_ + schedule_->slots[static_cast<std::size_t>(id)].offset;
}

View Executor::activation(const Op& op, SlotKind kind, int block) const {
  std::byte* const data = address(op, kind, block);
  return data == nullptr ? View() : View(data, run_.dtype, batch(op).tokens_N.cols, run_.model->hidden);
}

const void* Executor::weights(const Op& op, int block) const {
  const std::byte* const gathered = address(op, SlotKind::W, block);
  return gathered != nullptr ? gathered : store_.weights(block);
}

float* Executor::grads(const Op& op, int block) const {
  if (std::byte* const whole = address(op, SlotKind::G, block)) return reinterpret_cast<float*>(whole);
  return find_slot(*schedule_, op, SlotKind::R, block) == schedule::kNoSlot ? nullptr : store_.grads(block);
}

// Kernels add to gradients, so what is born begins with zeros.
void Executor::clear_born_gradients(const Op& op) const {
  for (const schedule::SlotId id : op.births) {
    const schedule::Slot& slot = schedule_->slots[static_cast<std::size_t>(id)];
    if (slot.kind == SlotKind::G) device_.fill(arena_ + slot.offset, 0, slot.bytes);
  }
}

layers::BlockData Executor::block_data(const Op& op) const {
  layers::BlockData data;
  data.saved = address(op, SlotKind::S, op.block);
  data.workspace = workspace_;
  data.weights = weights(op, op.block);
  data.batch = &batch(op);
  data.step = input_->step;
  data.training = schedule_->kind == schedule::StepKind::train;
  data.grads = grads(op, op.block);
  return data;
}

void Executor::forward(const Op& op, bool recompute) {
  if (idle(op)) return;
  layers::BlockData data = block_data(op);
  data.x_ND = activation(op, SlotKind::X, op.block);
  data.y_ND = activation(op, SlotKind::X, op.block + 1);
  layers::Block& block = *model_.blocks[static_cast<std::size_t>(op.block)];
  recompute ? block.recompute(data) : block.forward(data);
}

void Executor::head(const Op& op) {
  clear_born_gradients(op);
  if (idle(op)) return;
  layers::HeadData data;
  data.block = block_data(op);
  data.block.x_ND = activation(op, SlotKind::X, op.block);
  data.block.d_ND = activation(op, SlotKind::D, -1);
  if (run_.model->tied) {
    data.embedding_weights = weights(op, 0);
    data.embedding_grads = grads(op, 0);
  }
  data.grad_scale = static_cast<float>(input_->loss_scale / static_cast<double>(input_->supervised));
  data.loss_sum = results_.at(op.micro);
  if (input_->token_losses != nullptr) data.loss_N = View(input_->token_losses, 1, batch(op).tokens_N.cols);
  model_.head->loss(data);
}

void Executor::backward(const Op& op) {
  clear_born_gradients(op);
  if (idle(op)) return;
  layers::BlockData data = block_data(op);
  data.x_ND = activation(op, SlotKind::X, op.block);
  data.d_ND = activation(op, SlotKind::D, -1);
  model_.blocks[static_cast<std::size_t>(op.block)]->backward(data);
}

}  // namespace zt::exec
