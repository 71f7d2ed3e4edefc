#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

StepResult Executor::run(const schedule::Schedule& schedule, const StepInput& input) {
  schedule_ = &schedule;
  input_ = &input;
  result_ = {};
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    try {
      dispatch(schedule.ops[i]);
    } catch (const Error& e) {
      throw Error(
          e.blame(),
          cat("step ", input.step, " stopped at #", i, " `", name(schedule.ops[i]), "`: ", e.problem()),
          e.hint());
    }
  }
  return result_;
}

// No `default:` on purpose: a new OpKind must not compile until it is handled here.
void Executor::dispatch(const Op& op) {
  switch (op.kind) {
    case OpKind::forward: return forward(op, false);
    case OpKind::recompute: return forward(op, true);
    case OpKind::head: return head(op);
    case OpKind::backward: return backward(op);
    case OpKind::norm: return norm();
    case OpKind::update: return update(op);
    case OpKind::gather:
    case OpKind::reduce: throw Error(Blame::bug, "a list for one rank holds an op between ranks");
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

layers::BlockData Executor::block_data(const Op& op) const {
  layers::BlockData data;
  data.saved = address(op, SlotKind::S, op.block);
  data.workspace = workspace_;
  data.weights = store_.weights(op.block);
  data.batch = &batch(op);
  data.step = input_->step;
  data.training = schedule_->kind == schedule::StepKind::train;
  if (data.training) data.grads = store_.grads(op.block);
  return data;
}

void Executor::forward(const Op& op, bool recompute) {
  layers::BlockData data = block_data(op);
  data.x_ND = activation(op, SlotKind::X, op.block);
  data.y_ND = activation(op, SlotKind::X, op.block + 1);
  layers::Block& block = *model_.blocks[static_cast<std::size_t>(op.block)];
  recompute ? block.recompute(data) : block.forward(data);
}

void Executor::head(const Op& op) {
  layers::HeadData data;
  data.block = block_data(op);
  data.block.x_ND = activation(op, SlotKind::X, op.block);
  data.block.d_ND = activation(op, SlotKind::D, -1);
  if (run_.model->tied) {
    data.embedding_weights = store_.weights(0);
    if (data.block.training) data.embedding_grads = store_.grads(0);
  }
  data.grad_scale = input_->grad_scale;
  double loss = 0;
  data.loss_sum = &loss;
  if (!input_->token_losses.empty()) {
    const std::int64_t N = batch(op).tokens_N.cols;
    data.loss_N = View(input_->token_losses.data() + op.micro * N, 1, N);
  }
  model_.head->loss(data);
  result_.loss_sum += loss;
}

void Executor::backward(const Op& op) {
  layers::BlockData data = block_data(op);
  data.x_ND = activation(op, SlotKind::X, op.block);
  data.d_ND = activation(op, SlotKind::D, -1);
  model_.blocks[static_cast<std::size_t>(op.block)]->backward(data);
}

// One global norm over every parameter once, block by block in order; the finite check of the step is part of
// it.
void Executor::norm() {
  double sum = 0;
  for (int b = 0; b < static_cast<int>(run_.model->blocks.size()); ++b) {
    sum += sum_squares(store_.grads(b), store_.elements(b));
  }
  result_.grad_norm = std::sqrt(sum);
  result_.finite = std::isfinite(result_.grad_norm) && std::isfinite(result_.loss_sum);
  if (!result_.finite) result_.first_bad = first_bad_tensor();
  // PyTorch's clip_grad_norm_ divides by norm + 1e-6 and never scales up.
  const double limit = input_->max_grad_norm;
  clip_ = limit > 0 ? static_cast<float>(std::min(1.0, limit / (result_.grad_norm + 1e-6))) : 1.f;
}

double Executor::sum_squares(const float* values, std::int64_t count) const {
  double sum = 0;
  run_.kernels->sum_squares({View(values, 1, count), &sum});
  return sum;
}

std::string Executor::first_bad_tensor() const {
  for (int b = 0; b < static_cast<int>(run_.model->blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : run_.model->blocks[static_cast<std::size_t>(b)].tensors) {
      if (!std::isfinite(sum_squares(store_.grads(b) + tensor.offset, tensor.elements())))
        return cat("the gradient of ", tensor.name);
    }
  }
  return "the loss";
}

// A step that is not finite changes neither weights nor moments, but its gradients are forgotten all the
// same.
void Executor::update(const Op& op) {
  const int b = op.block;
  if (result_.finite) {
    kernels::AdamW a = input_->optimizer;
    const float decay = a.decay;
    a.grad_scale = clip_;
    for (const shard::UpdateRange& r :
         shard::update_ranges(run_.model->blocks[static_cast<std::size_t>(b)])) {
      a.decay = r.decay ? decay : 0.f;
      a.p_n = View(store_.master(b) + r.first, 1, r.count);
      a.m_n = View(store_.first_moment(b) + r.first, 1, r.count);
      a.v_n = View(store_.second_moment(b) + r.first, 1, r.count);
      a.g_n = View(store_.grads(b) + r.first, 1, r.count);
      a.w_n = {};
      if (store_.dtype() != Dtype::f32) {
        char* const weights = static_cast<char*>(store_.weights(b)) + r.first * size_of(store_.dtype());
        a.w_n = View(weights, store_.dtype(), 1, r.count);
      }
      run_.kernels->adamw(a);
    }
  }
  std::memset(store_.grads(b), 0, static_cast<std::size_t>(store_.elements(b)) * sizeof(float));
}

}  // namespace zt::exec
