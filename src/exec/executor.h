// Plays a planned list on a device. All thinking was done by the planner: there is no policy here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/arena.h"
#include "layers/block.h"
#include "layers/head.h"
#include "schedule/schedule.h"
#include "shard/param_store.h"

namespace zt::exec {

// The model's blocks, ready to be called: the embedding, the transformer blocks, the head.
struct Model {
  std::vector<std::unique_ptr<layers::Block>> blocks;  // b0 .. bL
  std::unique_ptr<layers::Head> head;
};
Model make_model(const layers::RunContext& run);

// The small values a step needs besides its micro-batches.
struct StepInput {
  std::span<const layers::BatchView> micros;
  std::uint32_t step = 0;         // counts from 1
  float grad_scale = 1.f;         // multiplies every gradient: 1 / supervised tokens of the global batch
  kernels::AdamW optimizer;       // lr, betas, eps, decay, t; the slices are filled in here
  double max_grad_norm = 0;       // 0: no clipping
  std::span<float> token_losses;  // optional, evaluation: each token's loss, micro after micro
};

struct StepResult {
  double loss_sum = 0;    // over supervised tokens of all micro-batches
  double grad_norm = 0;   // before clipping
  bool finite = true;     // false: a gradient or the loss is not finite, and nothing was updated
  std::string first_bad;  // then: the first tensor whose gradient is not finite, or "the loss"
};

class Executor {
 public:
  // `tokens` is N of one micro-batch. The arena must hold schedule.arena_bytes, the workspace the largest
  // op's scratch.
  Executor(const layers::RunContext& run, const Model& model, shard::ParamStore& store, std::byte* arena,
           std::byte* workspace)
      : run_(run), model_(model), store_(store), arena_(arena), workspace_(workspace) {}

  StepResult run(const schedule::Schedule& schedule, const StepInput& input);

 private:
  void dispatch(const schedule::Op& op);
  void forward(const schedule::Op& op, bool recompute);
  void head(const schedule::Op& op);
  void backward(const schedule::Op& op);
  void norm();
  void update(const schedule::Op& op);
  double sum_squares(const float* values, std::int64_t count) const;
  std::string first_bad_tensor() const;

  const layers::BatchView& batch(const schedule::Op& op) const {
    return input_->micros[static_cast<std::size_t>(op.micro)];
  }
  layers::BlockData block_data(const schedule::Op& op) const;
  // The slot of a kind as a [N, D] matrix; absent when the op does not name it.
  View activation(const schedule::Op& op, schedule::SlotKind kind, int block) const;
  std::byte* address(const schedule::Op& op, schedule::SlotKind kind, int block) const;

  layers::RunContext run_;
  const Model& model_;
  shard::ParamStore& store_;
  std::byte *arena_, *workspace_;
  const schedule::Schedule* schedule_ = nullptr;
  const StepInput* input_ = nullptr;
  StepResult result_;
  float clip_ = 1.f;
};

}  // namespace zt::exec
