#include "plan/estimates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

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
  std::optional<double> bytes;  // of one rank; none: there is no such number
  std::string how;
};

Line shared_line(const StateBytes& states, const spec::ModelSpec& model, const EstimateAsk& ask,
                 const std::string& how) {
  return {states.at(double(ask.ranks)) * double(model.parameters()),
          cat(states.whole, " + ", states.shared, "/ranks; ", how)};
}

Line zero_line(const spec::ModelSpec& model, const EstimateAsk& ask, int gradient_bytes) {
  return shared_line(zero_states(ask.stage, gradient_bytes), model, ask,
                     cat("2 of weights, ", gradient_bytes, " of gradients, 12 of the optimizer"));
}

Line megatron_line(const spec::ModelSpec& model, const EstimateAsk& ask, MegatronDtypes dtypes) {
  const char* how = ask.stage == 0  ? "nothing shared"
                    : ask.stage < 2 ? "its distributed optimizer"
                                    : "its distributed optimizer; weights and gradients whole, as at stage 1";
  return shared_line(megatron_states(dtypes, ask.stage > 0), model, ask, how);
}

Line factory_line(const spec::ModelSpec& model, std::size_t row) {
  const double bytes = factory_states().at(row).bytes;
  return {bytes * double(model.parameters()), cat(bytes, " in all, however many ranks share them")};
}

Line deepspeed_line(const spec::ModelSpec& model, const EstimateAsk& ask, DeepSpeedOffload offload) {
  if (ask.stage < 2) return {std::nullopt, "estimates stages 2 and 3 only"};
  if (ask.stage == 2 && offload == DeepSpeedOffload::all)
    return {std::nullopt, "offloads weights at stage 3 only"};
  DeepSpeedAsk theirs{.parameters = double(model.parameters()),
                      .largest_layer = double(largest_module(model)),
                      .stage = ask.stage,
                      .offload = offload};
  const bool one_node = ask.ranks_per_node == 0 || ask.ranks_per_node > ask.ranks;
  theirs.gpus_per_node = double(one_node ? ask.ranks : ask.ranks_per_node);
  theirs.nodes = double(ask.ranks) / theirs.gpus_per_node;
  const DeepSpeedEstimate estimate = deepspeed_estimate(theirs);
  std::string how = fmt::format("printed there, in units of 2^30, as {:.2f}GB", estimate.gpu / (1 << 30));
  if (ask.stage == 3)
    how += cat("; holds the largest layer, ", with_commas(std::int64_t(theirs.largest_layer)), " parameters");
  if (offload != DeepSpeedOffload::none)
    how += fmt::format("; {:.1f} GB of each node's memory besides", estimate.cpu / 1e9);
  return {estimate.gpu, how};
}

// Every convention once: its name, what people see, whether it is told without being asked for, its line.
struct Convention {
  const char *name, *who;
  bool usual;
  std::function<Line(const spec::ModelSpec&, const EstimateAsk&)> line;
};

using Model = const spec::ModelSpec&;
using Ask = const EstimateAsk&;

const std::vector<Convention>& conventions() {
  using enum MegatronDtypes;
  static const std::vector<Convention> table = {
      {"zero", "ZeRO paper", true, [](Model m, Ask a) { return zero_line(m, a, 2); }},
      {"zero-fp32-gradients", "ZeRO paper, fp32 gradients", false,
       [](Model m, Ask a) { return zero_line(m, a, 4); }},
      {"zero-infinity", "ZeRO-Infinity", false,
       [](Model m, Ask a) { return shared_line(kInfinityStates, m, a, "gradients in fp32 besides"); }},
      {"deepspeed", "DeepSpeed", true,
       [](Model m, Ask a) { return deepspeed_line(m, a, DeepSpeedOffload::none); }},
      {"deepspeed-offload-optimizer", "DeepSpeed, optimizer offloaded", false,
       [](Model m, Ask a) { return deepspeed_line(m, a, DeepSpeedOffload::optimizer); }},
      {"deepspeed-offload-all", "DeepSpeed, all offloaded", false,
       [](Model m, Ask a) { return deepspeed_line(m, a, DeepSpeedOffload::all); }},
      {"megatron-bf16", "Megatron-LM, fp32 gradients", true,
       [](Model m, Ask a) { return megatron_line(m, a, bf16_fp32); }},
      {"megatron-fp16", "Megatron-LM, all in fp16", false,
       [](Model m, Ask a) { return megatron_line(m, a, fp16_fp16); }},
      {"megatron-fp32", "Megatron-LM, all in fp32", false,
       [](Model m, Ask a) { return megatron_line(m, a, fp32_fp32); }},
      {"llama-factory-full", "LLaMA-Factory, full", true, [](Model m, Ask) { return factory_line(m, 0); }},
      {"llama-factory-pure-bf16", "LLaMA-Factory, full, pure bf16", true,
       [](Model m, Ask) { return factory_line(m, 1); }},
      {"llama-factory-lora", "LLaMA-Factory, LoRA", false, [](Model m, Ask) { return factory_line(m, 2); }},
      {"llama-factory-qlora-8", "LLaMA-Factory, QLoRA, 8 bits", false,
       [](Model m, Ask) { return factory_line(m, 3); }},
      {"llama-factory-qlora-4", "LLaMA-Factory, QLoRA, 4 bits", false,
       [](Model m, Ask) { return factory_line(m, 4); }},
      {"llama-factory-qlora-2", "LLaMA-Factory, QLoRA, 2 bits", false,
       [](Model m, Ask) { return factory_line(m, 5); }},
  };
  return table;
}

void check(const EstimateAsk& ask) {
  Problems problems;
  if (ask.ranks < 1) problems.add(cat("ranks must be at least 1, is ", ask.ranks));
  if (ask.ranks_per_node < 0) problems.add(cat("ranks_per_node must be at least 0, is ", ask.ranks_per_node));
  if (ask.stage < 0 || ask.stage > 3) problems.add(cat("stage must be 0 to 3, is ", ask.stage));
  const std::vector<std::string> names = estimate_names();
  for (const std::string& name : ask.conventions) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string near = nearest(name, names);
    problems.add(
        cat("no convention is called '", name, "'",
            near.empty() ? cat("; there are ", join(names, ", ")) : cat("; did you mean '", near, "'?")));
  }
  problems.throw_if_any(Blame::usage, "no estimates can be made:");
}

bool asked_for(const Convention& convention, const EstimateAsk& ask) {
  if (ask.conventions.empty()) return convention.usual;
  return std::ranges::find(ask.conventions, convention.name) != ask.conventions.end();
}

std::string shown(const std::string& who, const Line& line, double parameters) {
  std::string row = line.bytes ? fmt::format("  {:<34} {:>11.3f} {:>12.3f}  {}", who,
                                             *line.bytes / parameters, *line.bytes / 1e9, line.how)
                               : fmt::format("  {:<34} {:>11} {:>12}  {}", who, "-", "-", line.how);
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

// As a whole number; what is too much to matter, or no number, as the most there is.
std::string whole(double value) {
  return with_commas(value < 9e18 ? std::int64_t(value) : 9'000'000'000'000'000'000);
}

std::string tokens_line(const std::string& what, double needed, double tokens) {
  return fmt::format("  {:<34} from {} tokens of a micro-batch on; {} here: {}\n", what,
                     whole(std::ceil(needed)), whole(tokens), tokens >= needed ? "hidden" : "not hidden");
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

std::vector<std::string> estimate_names() {
  std::vector<std::string> names;
  for (const Convention& convention : conventions()) names.push_back(convention.name);
  return names;
}

std::string estimates_text(const spec::ModelSpec& model, const EstimateAsk& ask) {
  check(ask);
  const double parameters = double(model.parameters());
  std::string out = cat("what others would estimate: model states of ", with_commas(model.parameters()),
                        ask.ranks == 1 ? " parameters on one rank"
                                       : cat(" parameters on each of ", with_commas(ask.ranks), " ranks"),
                        ", stage ", ask.stage, "\n");
  out += fmt::format("  {:<34} {:>11} {:>12}  {}\n", "", "bytes/param", "GB (1e9 B)", "how it counts");
  out += shown("this plan", {ask.ours, ""}, parameters);
  for (const Convention& convention : conventions()) {
    if (asked_for(convention, ask)) out += shown(convention.who, convention.line(model, ask), parameters);
  }
  return out + tokens_lines(model, ask);
}

}  // namespace zt::plan
