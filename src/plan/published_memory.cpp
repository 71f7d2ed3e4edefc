#include "plan/published_memory.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {

static void require_stage(int stage, int least) {
  if (stage < least || stage > 3)
    throw Error(Blame::usage, cat("no estimate is made for stage ", stage),
                cat("stages are ", least, " to 3"));
}

StateBytes zero_states(int stage, int gradient_bytes) {
  require_stage(stage, 0);
  const double weights = 2, gradients = gradient_bytes, optimizer = kZeroOptimizerBytes;
  if (stage == 0) return {weights + gradients + optimizer, 0};
  if (stage == 1) return {weights + gradients, optimizer};
  if (stage == 2) return {weights, gradients + optimizer};
  return {0, weights + gradients + optimizer};
}

StateBytes megatron_states(MegatronDtypes dtypes, bool distributed) {
  StateBytes states;
  switch (dtypes) {
    case MegatronDtypes::fp16_fp16: states = {4, 16}; break;
    case MegatronDtypes::bf16_fp32: states = {6, 12}; break;
    case MegatronDtypes::fp32_fp32: states = {8, 8}; break;
  }
  return distributed ? states : StateBytes{states.whole + states.shared, 0};
}

const std::vector<FactoryRow>& factory_states() {
  static const std::vector<FactoryRow> rows = {{"full", 18},           {"full, pure bf16", 8},
                                               {"LoRA, GaLore", 2},    {"QLoRA, 8 bits", 1},
                                               {"QLoRA, 4 bits", 0.5}, {"QLoRA, 2 bits", 0.25}};
  return rows;
}

std::optional<std::int64_t> fewest_ranks(const StateBytes& states, double parameters, double capacity) {
  const double left = capacity - states.whole * parameters, shared = states.shared * parameters;
  if (left < 0 || (left == 0 && shared > 0)) return std::nullopt;
  const double ranks = shared > 0 ? std::max(1.0, std::ceil(shared / left)) : 1;
  if (ranks > 1e18) return std::nullopt;
  return std::int64_t(ranks);
}

double most_parameters(const StateBytes& states, double degree, double capacity) {
  return capacity / states.at(degree);
}

// Tables are printed from exact fractions: 41.25 must go up, and no binary number may decide.
__extension__ using Wide = __int128;

static Wide power_of_ten(int digits) { return digits == 0 ? 1 : 10 * power_of_ten(digits - 1); }

// n / d with so many digits after the point, rounded half up or down, without trailing zeros.
static std::string decimal(Wide n, Wide d, int digits, bool round) {
  const Wide scale = power_of_ten(digits);
  const Wide units = round ? (2 * n * scale + d) / (2 * d) : n * scale / d;
  std::string text = std::to_string(std::int64_t(units / scale));
  if (digits == 0) return text;
  text += fmt::format(".{:0{}}", std::int64_t(units % scale), digits);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string zero_table1_cell(std::int64_t parameters, std::int64_t degree, int stage) {
  const StateBytes states = zero_states(stage);
  const Wide n = Wide(parameters) * (Wide(states.whole) * degree + Wide(states.shared));
  const Wide d = Wide(degree) * 1'000'000'000;
  if (n >= 100 * d) return decimal(n, d, 0, false);
  return decimal(n, d, n >= 10 * d ? 1 : 2, true);
}

std::string zero_table2_cell(int stage, std::int64_t degree, std::int64_t model_parallel,
                             std::int64_t capacity_gb) {
  const StateBytes states = zero_states(stage);
  const Wide n = Wide(capacity_gb) * degree, d = Wide(states.whole) * degree + Wide(states.shared);
  const Wide tenths = (20 * n + d) / (2 * d) * model_parallel;
  if (tenths >= 5000) return decimal(tenths, 10'000, 1, true) + "T";
  return decimal(tenths, 10, 1, true) + "B";
}

static double host_bytes(const DeepSpeedAsk& ask) {
  // PyTorch makes the whole model in fp32 in every process of a node.
  const double whole = 4 * ask.gpus_per_node * ask.parameters;
  if (ask.stage == 2) {
    const double offloaded = std::max(4 * ask.nodes * ask.gpus_per_node, 16.0) * ask.parameters;
    return ask.offload == DeepSpeedOffload::none ? whole : offloaded;
  }
  if (ask.offload == DeepSpeedOffload::none)
    return ask.zero_init ? 4 * ask.gpus_per_node * ask.largest_layer : whole;
  const double states = (ask.offload == DeepSpeedOffload::all ? 18 : 16) * ask.parameters / ask.nodes;
  return ask.zero_init ? states : std::max(whole, states);
}

static double gpu_bytes(const DeepSpeedAsk& ask) {
  const double P = ask.parameters, N = ask.nodes * ask.gpus_per_node;
  if (ask.stage == 2) return ask.offload == DeepSpeedOffload::none ? 4 * P + 16 * P / N : 2 * P;
  switch (ask.offload) {
    case DeepSpeedOffload::none: return 4 * ask.largest_layer + 18 * P / N;
    case DeepSpeedOffload::optimizer: return 4 * ask.largest_layer + 2 * P / N;
    case DeepSpeedOffload::all: return 4 * ask.largest_layer;
  }
  return 0;
}

DeepSpeedEstimate deepspeed_estimate(const DeepSpeedAsk& ask) {
  require_stage(ask.stage, 2);
  if (ask.stage == 2 && ask.offload == DeepSpeedOffload::all)
    throw Error(Blame::usage, "DeepSpeed can't offload weights at stage 2",
                "offload the optimizer, or use stage 3");
  constexpr double kBuffers = 1.5;
  return {gpu_bytes(ask), kBuffers * host_bytes(ask)};
}

}  // namespace zt::plan
