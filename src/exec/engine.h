// A model on a device, ready for steps: plans the lists, claims all memory, and plays them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "plan/step_plan.h"

namespace zt::exec {

// Rows of one micro-batch on the host, one behind the other. The vectors have an entry for each of the rows x
// sequence_length tokens a step is planned for, of which the first `used()` are tokens of this batch, perhaps none;
// nothing reads what stands behind them, and it isn't computed.
struct HostBatch {
  std::vector<std::int32_t> tokens, positions, targets;  // targets: negative where nothing is supervised
  std::vector<std::int32_t> bounds;                      // document bounds, rising from 0 to used()
  // The place of each token where every row begins at a multiple of sequence_length, counted over this batch or over
  // all rows of the step. Dropout goes by it, so that masks don't depend on how full other rows are, nor, counted over
  // the step, on which rank and micro-batch a row is dealt to. Empty: token i has place i of this batch.
  std::vector<std::int32_t> places = {};
  bool places_of_step = false;
  std::int64_t used() const { return bounds.empty() ? 0 : bounds.back(); }
  std::int64_t supervised() const;
};

// Tokens that are computed for a batch that uses `used` of its `planned` ones: none for none, else the next multiple
// of 64 or more tokens, so large that a run meets at most 32 different counts (half-precision products are prepared
// for each count, which costs about 0.3 ms and 0.1 MB a product).
std::int64_t computed_tokens(std::int64_t used, std::int64_t planned);

struct EngineOptions {
  plan::StepShape
      shape;  // its bytes, dropout and number of ranks follow the fields below and the communicator
  Dtype dtype = Dtype::f32;
  Dtype grad_dtype = Dtype::f32;  // of the accumulated gradient: f32 or bf16
  Dtype wire = Dtype::f32;        // of gradients between ranks: f32 or bf16
  LaneOptions lanes;              // threads count only with several ranks
  float dropout = 0.f;
  std::uint64_t seed = 0;
  // Where the step runs, and the kernels that run there. Tests put some in between that count.
  device::Device* device = &device::host();
  std::function<std::unique_ptr<kernels::Kernels>(Dtype)> kernels = kernels::make_cpu_kernels;
};

class Engine {
 public:
  // Plans first. Weights start as zeros. Error(machine) when memory is short. With several ranks collective:
  // Error(peer) naming two ranks whose lists differ. `comm` must outlive the engine; null: one rank alone.
  Engine(const spec::ModelSpec& model, const EngineOptions& options, comm::Communicator* comm = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // One optimizer step over this rank's `micros` micro-batches, of which number m is micro-batch m x ranks + rank
  // of the global batch. `supervised` is the denominator: supervised
  // tokens of the global batch. `optimizer` carries lr, betas, eps, decay and t. A mean loss above `max_loss`
  // updates nothing. Collective.
  StepResult train_step(std::span<const HostBatch> micros, std::int64_t supervised, std::uint32_t step,
                        const kernels::AdamW& optimizer, double max_grad_norm, double loss_scale = 1,
                        double max_loss = std::numeric_limits<double>::infinity());
  // The next train_step fills `trace`, at the cost of reading the clock for each op.
  void trace_next_step(StepTrace* trace) { next_trace_ = trace; }
  // Completes whole weights after each rank has set the elements it needs. Collective.
  void gather_weights();
  // Summed loss of one batch; each token's loss too where `token_losses` is given, which has an entry for each
  // planned token: 0 where nothing is supervised and behind the used ones.
  double evaluate(const HostBatch& batch, std::span<float> token_losses = {});
  // Gradients of one step without the update, for tests and tools: they stay in params().grads() until the
  // next call, or until params().clear_grads(), which must come before the next train_step.
  StepResult gradients(std::span<const HostBatch> micros, std::int64_t supervised, std::uint32_t step);

  shard::ParamStore& params() { return params_; }
  const shard::ParamStore& params() const { return params_; }
  const spec::ModelSpec& model() const { return model_; }
  const plan::StepPlan& plan() const { return plan_; }
  const plan::StepShape& shape() const { return options_.shape; }
  const layers::RunContext& context() const { return run_; }
  const Model& blocks() const { return blocks_; }
  comm::Communicator& comm() const { return *comm_; }
  // Memory this engine holds: its arenas, and what its communicator and its kernels keep. The plan says the same.
  std::int64_t held_bytes() const;

 private:
  void require_same_lists() const;
  void reserve_bounds();
  float* token_loss_place(std::span<float> token_losses);
  void require_sound(const HostBatch& batch, std::int64_t planned) const;
  layers::BatchView load(const HostBatch& batch, std::size_t number, std::int64_t planned);
  void load_spans(std::span<const std::int32_t> bounds, std::byte* begin_at, std::byte* end_at,
                  layers::BatchView* view);
  StepResult play(const schedule::Schedule& list, std::span<const HostBatch> micros, std::int64_t supervised,
                  StepInput input);

  spec::ModelSpec model_;
  std::unique_ptr<comm::Communicator> alone_;
  comm::Communicator* comm_;
  std::unique_ptr<kernels::Kernels> kernels_;
  EngineOptions options_;
  plan::StepPlan plan_;
  device::Arena arena_, workspace_, batches_, tables_, token_losses_;
  shard::ParamStore params_;
  layers::RunContext run_;
  Model blocks_;
  std::unique_ptr<Executor> executor_;
  StepTrace* next_trace_ = nullptr;
  std::vector<layers::BatchView> views_;
  std::vector<std::vector<std::int32_t>> bounds_;  // of each micro-batch, then of evaluation's batch
  std::vector<std::int32_t> ids_;                  // an array of a batch on its way to the device
};

// Fills the rotary tables of `positions` positions; returns views into `tables`, absent for learned
// positions.
void fill_rope_tables(const spec::ModelSpec& model, std::int64_t positions, device::Device& device,
                      const device::Arena& tables, layers::RunContext* run);

}  // namespace zt::exec
