// The global norm, with the one finite check of a step, and AdamW on what this rank updates.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/executor.h"

namespace zt::exec {

using schedule::Op;

// The result lies in the device's memory.
void Executor::sum_squares(int block, const plan::Range& r, double* result) const {
  char* const first = static_cast<char*>(store_.gradient(block)) + r.first * size_of(store_.grad_dtype());
  run_.kernels->sum_squares({View(first, store_.grad_dtype(), 1, r.count), result});
}

void Executor::norm_of_block(const Op& op) {
  double* result = results_.at(results_.first_square(op.block));
  for (const plan::Range& r : store_.owned_gradient(op.block)) sum_squares(op.block, r, result++);
}

// Every element counts once, by its owner. Blocks in order, inside a block ranks in order: the same bits at
// every stage and on every rank.
void Executor::norm_of_all() {
  results_.fetch(sums_);
  comm_.exchange<double>(sums_, all_sums_);
  const std::size_t width = sums_.size(), ranks = all_sums_.size() / width;
  const auto total = [&](std::size_t i, double sum) {
    for (std::size_t r = 0; r < ranks; ++r) sum += all_sums_[r * width + i];
    return sum;
  };
  result_.loss_sum = total(0, 0);
  double squares = 0;
  for (std::size_t i = 1; i < width; ++i) squares = total(i, squares);
  result_.grad_norm = std::sqrt(squares) / input_->loss_scale;
  result_.finite = std::isfinite(result_.grad_norm) && std::isfinite(result_.loss_sum);
  if (!result_.finite) result_.first_bad = first_bad_tensor();
  result_.spike =
      result_.finite && result_.loss_sum / static_cast<double>(input_->supervised) > input_->max_loss;
  // PyTorch's clip_grad_norm_ divides by norm + 1e-6 and never scales up.
  const double limit = input_->max_grad_norm;
  const double clip = limit > 0 ? std::min(1.0, limit / (result_.grad_norm + 1e-6)) : 1.0;
  clip_ = static_cast<float>(clip / input_->loss_scale);
}

static constexpr std::int64_t kNoneBad = std::numeric_limits<std::int64_t>::max();

// The number, over the whole model, of the first tensor that is not finite in this rank's slices.
std::int64_t Executor::first_bad_here() {
  std::int64_t number = 0;
  const bool whole = store_.share().partition.grads_whole;
  for (int b = 0; b < static_cast<int>(run_.model->blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : run_.model->blocks[static_cast<std::size_t>(b)].tensors) {
      for (const plan::Part& part : store_.layout(b).parts(store_.owned(b))) {
        const plan::Range cut = plan::overlap({part.first, part.count}, {tensor.offset, tensor.elements()});
        const std::int64_t first = whole ? cut.first : part.state + cut.first - part.first;
        if (cut.count == 0) continue;
        sum_squares(b, {first, cut.count}, results_.spare());
        if (!std::isfinite(results_.fetch_spare())) return number;
      }
      ++number;
    }
  }
  return kNoneBad;
}

std::string Executor::first_bad_tensor() {
  const std::int64_t here = first_bad_here();
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm_.size()));
  comm_.exchange<std::int64_t>({&here, 1}, all);
  std::int64_t number = *std::ranges::min_element(all);
  if (number == kNoneBad) return "the loss";
  for (const spec::BlockSpec& block : run_.model->blocks) {
    const auto count = static_cast<std::int64_t>(block.tensors.size());
    if (number < count) return "the gradient of " + block.tensors[static_cast<std::size_t>(number)].name;
    number -= count;
  }
  return "a gradient";
}

// A step that is not finite, or a spike, changes neither weights nor moments, but its gradients are forgotten all
// the same.
void Executor::update(const Op& op) {
  const int b = op.block;
  if (result_.updated()) {
    for (const plan::Part& part : store_.parts(b)) {
      kernels::AdamW a = input_->optimizer;
      a.grad_scale = clip_;
      if (!part.decay) a.decay = 0.f;
      a.g_n = View(store_.gradient(b, part), store_.grad_dtype(), 1, part.count);
      a.p_n = View(store_.master(b, part), 1, part.count);
      a.m_n = View(store_.first_moment(b, part), 1, part.count);
      a.v_n = View(store_.second_moment(b, part), 1, part.count);
      if (store_.dtype() != Dtype::f32) a.w_n = View(store_.weights(b, part), store_.dtype(), 1, part.count);
      run_.kernels->adamw(a);
    }
  }
  device_.fill(store_.gradient(b), 0, store_.gradient_elements(b) * size_of(store_.grad_dtype()));
}

}  // namespace zt::exec
