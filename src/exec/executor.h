// Plays a planned list on a device. All thinking was done by the planner: there is no policy here.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "exec/lanes.h"
#include "exec/results.h"
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
  std::uint32_t step = 0;       // counts from 1
  std::int64_t supervised = 1;  // supervised tokens of the global batch: the one denominator
  double loss_scale = 1;        // gradients carry this factor until the norm; a power of two
  kernels::AdamW optimizer;     // lr, betas, eps, decay, t; the slices are filled in here
  double max_grad_norm = 0;     // 0: no clipping
  double max_loss = std::numeric_limits<double>::infinity();  // a mean loss above it is a spike
  StepTrace* trace = nullptr;                                 // optional: is filled
  float* token_losses =
      nullptr;  // optional, evaluation's one micro-batch: the device's room for each token's loss
};

// The same on all ranks, but for the seconds.
struct StepResult {
  double loss_sum = 0;    // over supervised tokens; of all ranks after training, of this one after eval
  double grad_norm = 0;   // before clipping, without loss scale
  bool finite = true;     // false: a gradient or the loss is not finite, and nothing was updated
  std::string first_bad;  // then: the first tensor whose gradient is not finite, or "the loss"
  bool spike = false;     // the mean loss was above max_loss, and nothing was updated
  bool updated() const { return finite && !spike; }
  double exposed_comm_seconds = 0;  // computation stood still for communication
};

class Executor {
 public:
  // The arena must hold schedule.arena_bytes, the workspace the largest op's scratch; both lie on the store's device.
  // Lists have at most `micros` micro-batches. `wire` is the number format of gradients on their way between ranks.
  Executor(const layers::RunContext& run, const Model& model, shard::ParamStore& store,
           comm::Communicator& comm, Dtype wire, std::byte* arena, std::byte* workspace, std::int64_t micros,
           LaneOptions lanes);

  StepResult run(const schedule::Schedule& schedule, const StepInput& input);

 private:
  void play(const schedule::Op& op, int index);
  void poison_freed(const schedule::Op& op) const;
  void dispatch(const schedule::Op& op);
  // Computation: executor.cpp.
  void forward(const schedule::Op& op, bool recompute);
  void head(const schedule::Op& op);
  void backward(const schedule::Op& op);
  // Between ranks: collectives.cpp.
  void gather(const schedule::Op& op);
  void accumulate(const schedule::Op& op);
  void reduce(const schedule::Op& op);
  // The optimizer: optimizer.cpp.
  void norm_of_block(const schedule::Op& op);
  void norm_of_all();
  void update(const schedule::Op& op);
  void sum_squares(int block, const plan::Range& gradient, double* result) const;
  std::string first_bad_tensor();
  std::int64_t first_bad_here();

  const layers::BatchView& batch(const schedule::Op& op) const {
    return input_->micros[static_cast<std::size_t>(op.micro)];
  }
  // A rank without rows computes nothing, but is there when ranks meet.
  bool idle(const schedule::Op& op) const { return batch(op).tokens_N.cols == 0; }
  layers::BlockData block_data(const schedule::Op& op) const;
  // Where the op finds a block's weights, and where it adds its gradient (null for a frozen block).
  const void* weights(const schedule::Op& op, int block) const;
  float* grads(const schedule::Op& op, int block) const;
  void clear_born_gradients(const schedule::Op& op) const;
  // The slot of a kind as a [N, D] matrix; absent when the op does not name it.
  View activation(const schedule::Op& op, schedule::SlotKind kind, int block) const;
  std::byte* address(const schedule::Op& op, schedule::SlotKind kind, int block) const;

  layers::RunContext run_;
  const Model& model_;
  shard::ParamStore& store_;
  device::Device& device_;
  comm::Communicator& comm_;
  Dtype wire_;
  bool poison_;
  std::byte *arena_, *workspace_;
  Results results_;               // of the ops of a step
  std::vector<double> sums_;      // loss, then each block's sum of squared gradients: this rank's
  std::vector<double> all_sums_;  // of all ranks
  const schedule::Schedule* schedule_ = nullptr;
  const StepInput* input_ = nullptr;
  StepResult result_;
  float clip_ = 1.f;
  Lanes lanes_;  // last: its thread ends first
};

}  // namespace zt::exec
