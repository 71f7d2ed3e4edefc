#include "plan/recipe_shape.h"

#include <algorithm>

namespace zt::plan {

static int bytes_of(recipe::ModelDtype dtype) { return dtype == recipe::ModelDtype::float32 ? 4 : 2; }
static int bytes_of(recipe::ReduceDtype dtype) { return dtype == recipe::ReduceDtype::float32 ? 4 : 2; }

static schedule::Policy policy_of(const recipe::Recompute& r) {
  using Kind = recipe::Recompute::Kind;
  switch (r.kind) {
    case Kind::none:
    case Kind::selective: return {schedule::Recompute::none, 1};  // inside the blocks: shape.selective
    case Kind::full: return {schedule::Recompute::full, 1};
    case Kind::sqrt: return {schedule::Recompute::sqrt, 1};
    case Kind::every: return {schedule::Recompute::every, static_cast<int>(r.every)};
  }
  return {};
}

static schedule::Zero zero_of(const recipe::Zero& z) {
  schedule::Zero zero;
  zero.gather_weights = z.stage == 3;
  zero.prefetch = static_cast<int>(z.prefetch);
  zero.reshard_after_forward = z.reshard_after_forward;
  zero.keep_blocks = static_cast<int>(z.keep_blocks);
  const bool micro =
      z.reduce == recipe::Reduce::micro || (z.reduce == recipe::Reduce::automatic && z.stage >= 2);
  zero.reduce = micro ? schedule::ReduceEvery::micro : schedule::ReduceEvery::step;
  return zero;
}

// Those that are kept, and the one under way. A run without regular ones writes one when it is stopped.
static std::int64_t checkpoints_of(const recipe::Recipe& r) {
  const recipe::Checkpoint& c = r.checkpoint;
  if (!c.every_steps) return c.save_on_signal ? 1 : 0;
  const std::int64_t most = c.keep_last + 1;
  return r.train.max_steps ? std::min(most, (*r.train.max_steps + *c.every_steps - 1) / *c.every_steps)
                           : most;
}

StepShape step_shape(const recipe::Recipe& r, bool training, int ranks) {
  StepShape shape;
  shape.dtype = r.model.dtype;
  shape.element_bytes = bytes_of(r.model.dtype);
  shape.dropout = r.model.dropout > 0;
  shape.selective = r.memory.recompute.kind == recipe::Recompute::Kind::selective;
  shape.training = training;
  shape.sequence_length = r.data.sequence_length;
  shape.rows = r.train.micro_batch_size;
  shape.micros = r.train.global_batch_size / (r.train.micro_batch_size * ranks);
  shape.eval_rows = r.train.eval_batch_size;
  shape.policy = policy_of(r.memory.recompute);
  shape.policy.zero = zero_of(r.zero);
  shape.partition = Partition::of_stage(static_cast<int>(r.zero.stage), ranks, shape.policy.zero.reduce);
  shape.grad_bytes = bytes_of(r.precision.accumulate_dtype);
  shape.policy.grads_apart = shape.grad_bytes != 4;
  shape.wire_bytes = bytes_of(r.precision.reduce_dtype);
  shape.process.mpi = ranks > 1;
  shape.process.vocabulary = r.tokenizer.path.has_value();
  if (training) shape.disk = {checkpoints_of(r), r.checkpoint.export_model == recipe::Export::at_end};
  shape.held = training && recipe::may_rewind(r);
  shape.snapshot = training && r.checkpoint.every_steps && r.checkpoint.async;
  return shape;
}

}  // namespace zt::plan
