// What papers and other programs say training takes in model states (weights, gradients, optimizer). Psi =
// number of parameters, d = ranks that share the states. GB = 1e9 bytes here, as in the ZeRO paper; DeepSpeed
// prints 2^30 as GB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zt::plan {

// Bytes a parameter costs on each rank: whole + shared / d.
struct StateBytes {
  double whole = 0, shared = 0;
  double at(double degree) const { return whole + shared / degree; }
};

// Mixed-precision Adam: 2 weights + 2 gradients + K = 12 (fp32 copy, momentum, variance), of which stage 1
// shares the optimizer's, 2 gradients too, 3 all. Rajbhandari et al. 2020 (ZeRO), section 3.1 and figure 1.
inline constexpr int kZeroOptimizerBytes = 12;
StateBytes zero_states(int stage, int gradient_bytes = 2);

// Megatron-LM's distributed optimizer (docs/user-guide/features/dist_optimizer.md), which shares fp32 copies
// and moments.
enum class MegatronDtypes : std::uint8_t { fp16_fp16, bf16_fp32, fp32_fp32 };  // weights and gradients
StateBytes megatron_states(MegatronDtypes dtypes, bool distributed);

// LLaMA-Factory's planning table (README, "Hardware Requirement"): bytes of all ranks together, however many.
struct FactoryRow {
  const char* method;
  double bytes;  // a parameter
};
const std::vector<FactoryRow>& factory_states();

// ZeRO-Infinity (Rajbhandari et al. 2021), section 3: gradients in fp32 besides, all shared.
inline constexpr StateBytes kInfinityStates{0, 20};

// The fewest ranks on which the states of so many parameters take at most `capacity` bytes each; none: no
// number does.
std::optional<std::int64_t> fewest_ranks(const StateBytes& states, double parameters, double capacity);
// The most parameters whose states take at most `capacity` bytes on each of so many ranks.
double most_parameters(const StateBytes& states, double degree, double capacity);

// A cell of ZeRO's table 1, in GB as printed there, exactly: from 100 on the digits after the point are
// dropped, from 10 on there is one, below two, both rounded half up; then trailing zeros go.
std::string zero_table1_cell(std::int64_t parameters, std::int64_t degree, int stage);
// A cell of ZeRO's table 2: the largest model on `capacity_gb` GPUs, "15.2B", "0.5T". The size without model
// parallelism is rounded to one decimal first, and then multiplied by the degree of model parallelism.
std::string zero_table2_cell(int stage, std::int64_t degree, std::int64_t model_parallel,
                             std::int64_t capacity_gb);

// DeepSpeed's estimates (deepspeed/runtime/zero/stage_1_and_2.py, stage3.py; docs/code-docs/source/memory.rst
// at the commit whose ZeRO-2 formula is 4 P + 16 P / N).
enum class DeepSpeedOffload : std::uint8_t { none, optimizer, all };  // all: weights too, stage 3 only
struct DeepSpeedAsk {
  double parameters = 0;
  double largest_layer = 0;  // parameters of the largest module that has its own, such as an embedding
  double nodes = 1, gpus_per_node = 1;
  int stage = 3;  // 2 or 3
  DeepSpeedOffload offload = DeepSpeedOffload::none;
  bool zero_init = true;  // stage 3: the model is made in slices, never whole on each rank
};
struct DeepSpeedEstimate {
  double gpu = 0;  // bytes of each GPU
  double cpu = 0;  // bytes of each node's host memory, with DeepSpeed's factor of 1.5 for buffers
};
// Throws Error(usage) for a stage without an estimate, or one that can't offload so.
DeepSpeedEstimate deepspeed_estimate(const DeepSpeedAsk& ask);

}  // namespace zt::plan
