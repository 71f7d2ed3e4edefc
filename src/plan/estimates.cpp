#include "plan/estimates.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "plan/gather_hiding.h"
#include "plan/published_memory.h"

namespace zt::plan {

std::int64_t largest_module(const spec::ModelSpec& model) {
  std::map<std::string, std::int64_t> modules;
  std::int64_t largest = 0;
  for (const spec::BlockSpec& block : model.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) {
      std::int64_t& size = modules[tensor.name.substr(0, tensor.name.rfind('.'))];
      largest = std::max(largest, size += tensor.elements());
    }
  }
  return largest;
}

namespace {

struct Line {
  std::string who;
  double bytes = 0;  // of one rank; less than 0: there is no such number
  std::string how;
};

void check(const EstimateAsk& ask) {
  Problems problems;
  if (ask.ranks < 1) problems.add(cat("ranks must be at least 1, is ", ask.ranks));
  if (ask.ranks_per_node < 0) problems.add(cat("ranks_per_node must be at least 0, is ", ask.ranks_per_node));
  if (ask.stage < 0 || ask.stage > 3) problems.add(cat("stage must be 0 to 3, is ", ask.stage));
  problems.throw_if_any(Blame::usage, "no estimates can be made:");
}

Line zero_line(double parameters, const EstimateAsk& ask) {
  const StateBytes states = zero_states(ask.stage);
  return {"ZeRO paper", states.at(double(ask.ranks)) * parameters,
          cat("2 weights + 2 gradients + 12 optimizer: ", states.whole, " + ", states.shared, "/ranks")};
}

Line deepspeed_line(const spec::ModelSpec& model, const EstimateAsk& ask) {
  if (ask.stage < 2) return {"DeepSpeed", -1, "estimates stages 2 and 3 only"};
  DeepSpeedAsk theirs;
  theirs.parameters = double(model.parameters());
  theirs.largest_layer = double(largest_module(model));
  theirs.gpus_per_node = double(ask.ranks_per_node > 0 ? std::min(ask.ranks, ask.ranks_per_node) : ask.ranks);
  theirs.nodes = double(ask.ranks) / theirs.gpus_per_node;
  theirs.stage = ask.stage;
  const double gpu = deepspeed_estimate(theirs).gpu;
  const std::string how = ask.stage == 2
                              ? "4 + 16/ranks"
                              : cat("18/ranks, and 4 of the largest layer's ",
                                    with_commas(std::int64_t(theirs.largest_layer)), " parameters");
  return {"DeepSpeed", gpu, cat(how, fmt::format("; printed there as {:.2f}GB", gpu / (1 << 30)))};
}

Line megatron_line(double parameters, const EstimateAsk& ask) {
  const bool distributed = ask.stage > 0;
  const StateBytes states = megatron_states(MegatronDtypes::bf16_fp32, distributed);
  const char* how = ask.stage < 2 ? "" : "; shares neither weights nor gradients, as stage 1";
  return {distributed ? "Megatron-LM distributed optimizer" : "Megatron-LM",
          states.at(double(ask.ranks)) * parameters,
          cat("bf16 weights, fp32 gradients: ", states.whole, " + ", states.shared, "/ranks", how)};
}

Line factory_line(double parameters, const FactoryRow& row) {
  return {cat("LLaMA-Factory, ", row.method), row.bytes * parameters,
          cat(row.bytes, " in all, over however many ranks")};
}

std::string shown(const Line& line, double parameters) {
  if (line.bytes < 0) return fmt::format("  {:<34} {:>10} {:>12}  {}\n", line.who, "-", "-", line.how);
  return fmt::format("  {:<34} {:>10.3f} {:>12.3f}  {}\n", line.who, line.bytes / parameters,
                     line.bytes / 1e9, line.how);
}

std::string tokens_line(const std::string& what, double needed, double tokens) {
  const bool hidden = tokens >= needed;
  return fmt::format("  {:<34} from {} tokens of a micro-batch on; {} here: {}\n", what,
                     with_commas(std::int64_t(std::min(std::ceil(needed), 9e18))),
                     with_commas(std::int64_t(tokens)), hidden ? "hidden" : "not hidden");
}

std::string tokens_lines(const spec::ModelSpec& model, const EstimateAsk& ask) {
  if (ask.ranks < 2 || !(ask.flops > 0) || !(ask.bandwidth > 0) || !(ask.tokens > 0)) return "";
  const WireBytes wire{ask.wire_weight, ask.wire_weight, ask.wire_gradient};
  const double attention = attention_factor(ask.sequence_length, model.hidden);
  const auto line = [&](const std::string& what, double needed) {
    return tokens_line(what, needed / attention, ask.tokens);
  };
  std::string out = fmt::format("computing hides what moves between ranks ({:.4g} TFLOP/s, {:.4g} GB/s)\n",
                                ask.flops / 1e12, ask.bandwidth / 1e9);
  if (ask.stage < 3)
    return out + line("reduction in backward", tokens_to_hide_reduction(wire, ask.flops, ask.bandwidth));
  const Pass backward = ask.recompute ? Pass::backward_recompute : Pass::backward;
  return out + line("gathers in forward", tokens_to_hide(Pass::forward, wire, ask.flops, ask.bandwidth)) +
         line("gathers and reduction in backward", tokens_to_hide(backward, wire, ask.flops, ask.bandwidth));
}

}  // namespace

std::string estimates_text(const spec::ModelSpec& model, const EstimateAsk& ask) {
  check(ask);
  const double parameters = double(model.parameters());
  std::vector<Line> lines = {{"this plan", ask.ours, ""},
                             zero_line(parameters, ask),
                             deepspeed_line(model, ask),
                             megatron_line(parameters, ask)};
  for (const FactoryRow& row : factory_states()) {
    if (starts_with(row.method, "full")) lines.push_back(factory_line(parameters, row));
  }
  std::string out = cat("what others would estimate: model states of ", with_commas(model.parameters()),
                        " parameters on each of ", with_commas(ask.ranks), " ranks, stage ", ask.stage, "\n");
  out += fmt::format("  {:<34} {:>10} {:>12}  {}\n", "", "bytes each", "GB (1e9 B)", "bytes of a parameter");
  for (const Line& line : lines) out += shown(line, parameters);
  return out + tokens_lines(model, ask);
}

}  // namespace zt::plan
