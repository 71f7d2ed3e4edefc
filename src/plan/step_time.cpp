#include "plan/step_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "plan/drawing.h"
#include "spec/flops.h"

namespace zt::plan {
namespace {

using schedule::Lane;
using schedule::Op;
using schedule::OpKind;

// For which row of the table a kernel's seconds count.
const char* part_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::product:
    case Kernel::product_dx:
    case Kernel::product_dw: return "products";
    case Kernel::attention:
    case Kernel::attention_backward: return "attention";
    case Kernel::adamw: return "optimizer";
    case Kernel::sum_squares: return "norm";
    default: return "elementwise";
  }
}

// Time on the compute lane stretches while the other lane shares the device, so kernels' own seconds are scaled to what
// the lane was busy.
std::vector<TimePart> parts_of(const std::map<Kernel, double>& kernels, const StepTime& time) {
  std::vector<TimePart> parts = {{"products", "matrix products"},
                                 {"attention", "attention"},
                                 {"elementwise", "element by element"},
                                 {"optimizer", "optimizer"},
                                 {"norm", "gradient norm"},
                                 {"waiting", "waiting for communication"},
                                 {"besides", "batches, lanes, all the rest"}};
  double sum = 0;
  for (const auto& [kernel, seconds] : kernels) sum += seconds;
  const double busy = time.simulation.busy[static_cast<std::size_t>(Lane::compute)];
  const double stretch = sum > 0 ? busy / sum : 0;
  for (const auto& [kernel, seconds] : kernels)
    std::ranges::find(parts, part_of(kernel), &TimePart::id)->seconds += seconds * stretch;
  std::ranges::find(parts, "waiting", &TimePart::id)->seconds = time.simulation.exposed;
  double rest = time.seconds;
  for (const TimePart& part : parts) rest -= part.seconds;
  parts.back().seconds = std::max(0.0, rest);
  return parts;
}

// The ops of one block and micro-batch, which share its transfers.
struct BlockCost {
  double forward = 0, backward = 0;  // computing, of one micro-batch
  double gather = 0, reduce = 0;     // one of each
};

std::map<int, BlockCost> block_costs(const schedule::Schedule& list, const std::vector<double>& seconds) {
  std::map<int, BlockCost> costs;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    if (op.micro > 0) continue;
    BlockCost& c = costs[op.block];
    switch (op.kind) {
      case OpKind::forward: c.forward += seconds[i]; break;
      case OpKind::recompute:
      case OpKind::backward: c.backward += seconds[i]; break;
      case OpKind::head: c.forward += seconds[i] / 3, c.backward += seconds[i] * 2 / 3; break;
      case OpKind::gather: c.gather = seconds[i]; break;
      case OpKind::reduce: c.reduce = seconds[i]; break;
      case OpKind::accumulate:
      case OpKind::norm:
      case OpKind::update: break;
    }
  }
  return costs;
}

// Computing grows with the tokens of a micro-batch and transfers don't: the tokens at which both take equally long.
// See plan/gather_hiding.h.
double tokens_to_hide(const Op& waiter, const BlockCost& c, const Sharing& sharing, double tokens) {
  const bool forward = waiter.kind == OpKind::forward;
  const bool backward = waiter.kind == OpKind::backward || waiter.kind == OpKind::recompute;
  const double compute = (forward ? c.forward : backward ? c.backward : 0) / sharing.compute;
  const double comm = (forward ? c.gather : c.gather + c.reduce) / sharing.comm;
  return compute > 0 ? tokens * comm / compute : 0;
}

std::vector<WaitGroup> wait_groups(const schedule::Schedule& list, const StepTime& time,
                                   const Sharing& sharing, double tokens) {
  const std::map<int, BlockCost> costs = block_costs(list, time.op_seconds);
  std::map<std::tuple<OpKind, bool, OpKind>, WaitGroup> groups;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const Span& span = time.simulation.spans[i];
    const Op& op = list.ops[i];
    if (op.lane != Lane::compute || !(span.waited > 0)) continue;
    const bool before = span.blocker < 0;
    const OpKind blocker = before ? OpKind::norm : list.ops[static_cast<std::size_t>(span.blocker)].kind;
    WaitGroup& g = groups[{op.kind, before, blocker}];
    g.waiter = op.kind;
    g.blocker = blocker;
    g.of_step_before = before;
    ++g.count;
    g.seconds += span.waited;
    if (span.waited <= g.longest) continue;
    g.longest = span.waited;
    g.op = static_cast<int>(i);
    const bool transfer = blocker == OpKind::gather || blocker == OpKind::reduce;
    // Layers hide each other's transfers; embedding and head compute nothing like what they send.
    const bool layer = op.block > 0 && op.block < costs.rbegin()->first;
    g.tokens_to_hide = 0;
    if (const auto c = costs.find(op.block); transfer && layer && c != costs.end())
      g.tokens_to_hide = tokens_to_hide(op, c->second, sharing, tokens);
  }
  std::vector<WaitGroup> sorted;
  for (const auto& [key, group] : groups) sorted.push_back(group);
  std::ranges::stable_sort(sorted, std::ranges::greater(), &WaitGroup::seconds);
  return sorted;
}

std::string wait_words(const WaitGroup& g, const schedule::Schedule& list, const StepTime& time,
                       double tokens) {
  const int blocker = time.simulation.spans[static_cast<std::size_t>(g.op)].blocker;
  std::string out =
      cat("`", name(list.ops[static_cast<std::size_t>(g.op)]), "` waits ", time_text(g.longest), " for ",
          blocker < 0 ? "the step before" : cat("`", name(list.ops[static_cast<std::size_t>(blocker)]), "`"));
  if (g.count > 1) out += cat("; ", with_commas(g.count), " such waits add up to ", time_text(g.seconds));
  out += fmt::format(" ({:.1f} % of the step)", 100 * g.seconds / time.seconds);
  constexpr double kMostTokens = 1e12;  // nobody has more
  if (g.tokens_to_hide > tokens && g.tokens_to_hide < kMostTokens)
    out += cat(": about ", with_commas(std::llround(g.tokens_to_hide)),
               " tokens in a micro-batch of each rank would hide them, there are ",
               with_commas(std::llround(tokens)));
  return out;
}

std::vector<std::string> words_of(const schedule::Schedule& list, const StepTime& time, double tokens) {
  constexpr double kWorthAWord = 0.01;  // of the step
  std::vector<std::string> words;
  for (const WaitGroup& g : time.waits)
    if (g.seconds > kWorthAWord * time.seconds && words.size() < 3)
      words.push_back(wait_words(g, list, time, tokens));
  const Simulation& s = time.simulation;
  double compute_end = 0;
  for (std::size_t i = 0; i < list.ops.size(); ++i)
    if (list.ops[i].lane == Lane::compute) compute_end = std::max(compute_end, s.spans[i].end);
  if (const double tail = s.seconds - compute_end; tail > kWorthAWord * time.seconds)
    words.push_back(cat("the step's last ", time_text(tail), " go to `",
                        name(list.ops[static_cast<std::size_t>(s.critical.back())]),
                        "`, when all is computed"));
  if (words.empty()) {
    const TimePart& most = *std::ranges::max_element(time.parts, {}, &TimePart::seconds);
    const double share = 100 * most.seconds / time.seconds;
    words.push_back(
        most.id == "besides"
            ? fmt::format("so short a step is mostly {}, {:.0f} % of it", most.what, share)
            : fmt::format("computing is what takes the time, {:.0f} % of it {}", share, most.what));
  }
  return words;
}

}  // namespace

LevelTraffic by_level(const Traffic& traffic, const Cluster& cluster, int ranks) {
  const double N = ranks,
               G = static_cast<double>(std::min<std::int64_t>(ranks, cluster.node_for(ranks).ranks));
  double inside = 1;  // share of what a rank sends
  if (N > G) switch (cluster.collectives) {
      case Collectives::exchange: inside = (G - 1) / (N - 1); break;
      case Collectives::ring: inside = (G - 1) / G; break;  // of a node's G rails each leaves it once
      case Collectives::hierarchical: inside = N * (G - 1) / (G * (N - 1)); break;
    }
  const auto split = [&](std::int64_t bytes, std::int64_t* in, std::int64_t* out) {
    *in = std::llround(static_cast<double>(bytes) * inside);
    *out = bytes - *in;
  };
  LevelTraffic t;
  split(traffic.all_gather, &t.inside.all_gather, &t.between.all_gather);
  split(traffic.reduce_scatter, &t.inside.reduce_scatter, &t.between.reduce_scatter);
  split(traffic.all_reduce, &t.inside.all_reduce, &t.between.all_reduce);
  return t;
}

StepTime step_time(const spec::ModelSpec& model, const StepShape& shape, const StepPlan& plan,
                   const Cluster& cluster) {
  const int ranks = shape.partition.ranks;
  const Node& node = cluster.node_for(ranks);
  StepTime t;
  t.cluster = cluster.name;
  t.calibrated = cluster.calibrated;
  t.ranks = ranks;
  t.nodes = static_cast<int>((ranks + node.ranks - 1) / node.ranks);
  t.traffic = by_level(plan.traffic, cluster, ranks);
  t.op_seconds = op_seconds(plan.train, model, shape, cluster);
  const Sharing sharing = sharing_of(cluster, node);
  t.simulation = simulate(plan.train, t.op_seconds, sharing);
  t.seconds = t.simulation.seconds + node.step_seconds;
  const auto tokens = static_cast<double>(shape.rows * shape.sequence_length);
  const double of_step = tokens * static_cast<double>(shape.micros);
  t.tokens_per_second = of_step * ranks / t.seconds;
  t.model_flops = of_step * spec::training_flops_per_token(model, shape.sequence_length);
  if (const double peak = cluster.peak(shape.dtype); peak > 0) t.mfu = t.model_flops / t.seconds / peak;
  t.parts = parts_of(kernel_seconds(plan.train, model, shape, cluster), t);
  t.waits = wait_groups(plan.train, t, sharing, tokens);
  t.words = words_of(plan.train, t, tokens);
  return t;
}

static std::string traffic_line(const char* level, const Traffic& t) {
  return fmt::format("  {:<26} {:>16}  {:>11}\n", level, with_commas(t.total()), human_bytes(t.total()));
}

std::string text(const StepTime& t) {
  std::string out;
  if (t.ranks > 1) {
    out += "traffic of a step by level, sent by each rank\n";
    out += traffic_line("inside a node", t.traffic.inside) + traffic_line("between nodes", t.traffic.between);
  }
  out += cat("time of a step on '", t.cluster, "', ", with_commas(t.ranks), t.ranks == 1 ? " rank" : " ranks",
             t.nodes > 1 ? cat(" on ", with_commas(t.nodes), " nodes") : "", "\n");
  out += fmt::format("  {:<30} {:>12}\n", "step", time_text(t.seconds));
  for (const TimePart& part : t.parts)
    if (part.seconds > 0.0005 * t.seconds)
      out += fmt::format("    {:<28} {:>12}  {:>5.1f} %\n", part.what, time_text(part.seconds),
                         100 * part.seconds / t.seconds);
  if (t.ranks > 1)
    out += fmt::format("  {:<30} {:>12}\n", "communication lane busy",
                       time_text(t.simulation.busy[static_cast<std::size_t>(Lane::comm)]));
  out += fmt::format("  {:<30} {:>12}  {} a rank\n", "tokens a second",
                     with_commas(std::llround(t.tokens_per_second)),
                     with_commas(std::llround(t.tokens_per_second / t.ranks)));
  if (t.mfu > 0)
    out += fmt::format(
        "  {:<30} {:>10.1f} %  of the peak, by 6 N + 12 L H Q T FLOPs a token, causal mask not halved\n",
        "MFU", 100 * t.mfu);
  for (const std::string& w : t.words) out += cat("  ", w, "\n");
  return out;
}

}  // namespace zt::plan
