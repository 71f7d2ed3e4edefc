#include "measure/calibrate.h"

#include <algorithm>

#include "base/text.h"
#include "device/cores.h"
#include "measure/kernel_rates.h"
#include "measure/links.h"
#include "measure/product_rate.h"
#include "measure/rounds.h"
#include "plan/step_time.h"

namespace zt::measure {

// What whole steps took beside what the node's own numbers say of them, the median: where ranks share cores they also wait
// until the last one has had its turn.
static double stretch_of(const plan::Node& node, const std::vector<Moving::Step>& steps) {
  if (steps.empty()) return 1;
  plan::Cluster cluster;
  cluster.name = "this machine";
  cluster.nodes = {node};
  std::vector<double> ratios;
  for (const Moving::Step& step : steps)
    ratios.push_back(step.seconds /
                     step_time(step.model, step.shape, plan_step(step.model, step.shape), cluster).seconds);
  return std::clamp(median(ratios), plan::kLeastStretch, plan::kMostStretch);
}

plan::Node measure_node(comm::Communicator& ranks, const Options& options) {
  plan::Node node;
  node.ranks = ranks.size();
  node.threads = device::threads_of_rank(ranks.size());
  node.call_seconds = measure_call_seconds(ranks, options);
  node.memory_bandwidth = measure_memory_bandwidth(ranks, options);
  options.say("collectives");
  const Moving moving = measure_moving(ranks, options);
  node.gather = moving.gather;
  node.reduce = moving.reduce;
  node.overlap_compute = moving.overlap_compute;
  node.overlap_comm = moving.overlap_comm;
  for (const recipe::ModelDtype dtype : options.dtypes) {
    const std::vector<plan::Rate> rates = kernel_rates(ranks, dtype, node.call_seconds, options);
    node.rates.insert(node.rates.end(), rates.begin(), rates.end());
  }
  node.stretch = stretch_of(node, moving.steps);
  return node;
}

Peaks measure_peaks(comm::Communicator& ranks) {
  const auto rate = [&](Dtype dtype) {
    const auto kernels = kernels::make_cpu_kernels(dtype);
    ranks.barrier();
    return mean_over_ranks(ranks, {measure_product_rate(*kernels, dtype)}).front();
  };
  return {rate(Dtype::f32), rate(Dtype::bf16), rate(Dtype::f16)};
}

// All gather at once over all nodes; what each node's ranks fetch from others comes over its one link.
plan::Link measure_between(comm::Communicator& world, comm::Communicator& node, const Options& options) {
  const std::int64_t outside = world.size() - node.size();
  if (outside == 0) return {};
  const Pace pace = options.quick ? Pace{0.005, 3} : Pace{};
  std::vector<double> bytes, seconds;
  for (const std::int64_t slice : {4 << 10, 64 << 10, 1 << 20, 8 << 20}) {
    if (options.quick && slice > 64 << 10) break;
    std::vector<std::byte> whole(static_cast<std::size_t>(slice * world.size()));
    seconds.push_back(seconds_of(world, pace, [&] { world.all_gather(whole.data(), slice); }));
    bytes.push_back(static_cast<double>(slice * outside * node.size()));
  }
  plan::Link link = fit_link(bytes, seconds);
  link.latency /= static_cast<double>(outside);
  return link;
}

void put_node(plan::Cluster& cluster, plan::Node node) {
  std::erase_if(cluster.nodes, [&](const plan::Node& n) { return n.ranks == node.ranks; });
  const auto place = std::ranges::upper_bound(cluster.nodes, node.ranks, {}, &plan::Node::ranks);
  cluster.nodes.insert(place, std::move(node));
}

}  // namespace zt::measure
