// What an op takes by itself: its kernels at the rates the cluster has for them, and what moves over its links.
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "plan/collective_cost.h"
#include "plan/simulator.h"

namespace zt::plan {
namespace {

using schedule::Op;
using schedule::OpKind;
using schedule::SlotKind;

// Where a kernel has no rate of its own, it goes at that of the kernel it resembles.
Kernel stand_in(Kernel kernel) {
  switch (kernel) {
    case Kernel::product_dx:
    case Kernel::product_dw:
    case Kernel::attention: return Kernel::product;
    case Kernel::attention_backward: return Kernel::attention;
    default: return kernel;
  }
}

double log_ratio(std::int64_t a, std::int64_t b) {
  return a <= 0 || b <= 0 ? 0 : std::log2(static_cast<double>(a) / static_cast<double>(b));
}

class KernelSeconds {
 public:
  KernelSeconds(const Cluster& cluster, const Node& node, recipe::ModelDtype dtype)
      : cluster_(cluster), node_(node), dtype_(dtype) {
    for (const Rate& rate : node.rates) rates_[{rate.kernel, rate.dtype}].push_back(&rate);
  }

  double of(const std::vector<Work>& list) {
    double sum = 0;
    for (const Work& work : list) sum += static_cast<double>(work.calls) * of(work);
    return sum;
  }

  double of(const Work& work) {
    const auto [it, fresh] = known_.try_emplace({work.kernel, work.m, work.n, work.k, work.amount()}, 0);
    if (fresh) it->second = node_.call_seconds + measure(work);
    return it->second;
  }

 private:
  using Key = std::tuple<Kernel, std::int64_t, std::int64_t, std::int64_t, double>;

  double measure(const Work& work) const {
    const std::vector<const Rate*>* const rates = rates_of(work.kernel);
    if (rates == nullptr) return work.bytes / node_.memory_bandwidth;
    const double seconds = work.amount() / interpolated(*rates, work);
    // A rate for any size says nothing about sizes that are too small to reach it.
    const bool sized = rates->front()->m > 0;
    return sized ? seconds : std::max(seconds, work.bytes / node_.memory_bandwidth);
  }
  // Rates of the kernel on these numbers, else of its stand-in; a CPU multiplies numbers it has no products of in fp32.
  const std::vector<const Rate*>* rates_of(Kernel kernel) const {
    std::vector<recipe::ModelDtype> dtypes = {dtype_};
    if (cluster_.backend == Backend::cpu) dtypes.push_back(recipe::ModelDtype::float32);
    for (const recipe::ModelDtype dtype : dtypes)
      for (Kernel k = kernel;; k = stand_in(k)) {
        if (const auto it = rates_.find({k, dtype}); it != rates_.end()) return &it->second;
        if (stand_in(k) == k) break;
      }
    if (!counts_flops(kernel)) return nullptr;
    throw Error(
        Blame::usage, cat("'", cluster_.name, "' has no rate of products of ", recipe::word_of(dtype_)),
        cluster_.calibrated ? "choose another model.dtype, or measure that one: zerotrain doctor --calibrate"
                            : "choose another model.dtype, or another device");
  }
  // Inverse-distance weighting (Shepard 1968) of log rates over log sizes; a measured size gives its own rate.
  static double interpolated(const std::vector<const Rate*>& rates, const Work& work) {
    double sum = 0, weights = 0;
    for (const Rate* const rate : rates) {
      const double m = log_ratio(work.m, rate->m), n = log_ratio(work.n, rate->n),
                   k = log_ratio(work.k, rate->k);
      const double distance = m * m + n * n + k * k;
      if (distance < 1e-12) return rate->per_second;
      const double weight = 1 / (distance * distance);
      sum += weight * std::log(rate->per_second);
      weights += weight;
    }
    return std::exp(sum / weights);
  }

  const Cluster& cluster_;
  const Node& node_;
  recipe::ModelDtype dtype_;
  std::map<std::pair<Kernel, recipe::ModelDtype>, std::vector<const Rate*>> rates_;
  std::map<Key, double> known_;
};

// Time on the links, by what a collective moves.
class LinkSeconds {
 public:
  LinkSeconds(const Cluster& cluster, const Node& node, int ranks)
      : cluster_(cluster),
        node_(node),
        per_node_(static_cast<double>(std::min<std::int64_t>(ranks, node.ranks))),
        nodes_(std::ceil(static_cast<double>(ranks) / per_node_)) {}

  double gather(double bytes) const { return collective(bytes, node_.gather); }
  double reduce(double bytes) const { return collective(bytes, node_.reduce); }

 private:
  double collective(double bytes, const Link& inside) const {
    if (per_node_ * nodes_ <= 1) return 0;
    switch (nodes_ > 1 ? cluster_.collectives : Collectives::ring) {
      case Collectives::exchange: return exchange_seconds(nodes_, per_node_, bytes, inside, cluster_.between);
      case Collectives::hierarchical:
        return hierarchical_seconds(nodes_, per_node_, bytes, inside, cluster_.between);
      case Collectives::ring: break;
    }
    return flat_ring_seconds(nodes_, per_node_, bytes, inside, cluster_.between);
  }

  const Cluster& cluster_;
  const Node& node_;
  const double per_node_, nodes_;
};

// What an op moves between ranks takes so long.
double moving_seconds(const schedule::Schedule& list, const Op& op, const spec::ModelSpec& model,
                      const StepShape& shape, const LinkSeconds& links) {
  const double ranks = shape.partition.ranks;
  if (op.kind == OpKind::norm && op.block < 0)
    return links.gather(ranks * 8 * static_cast<double>(model.blocks.size() + 1));
  if (op.kind != OpKind::gather && op.kind != OpKind::reduce) return 0;
  const BlockLayout layout(model.blocks[static_cast<std::size_t>(op.block)], shape.partition);
  const double elements = static_cast<double>(layout.padded());
  if (op.kind == OpKind::gather) return links.gather(elements * shape.element_bytes);
  const bool whole = find_slot(list, op, SlotKind::G, op.block) != schedule::kNoSlot;
  const double stored = whole ? 4 : shape.grad_bytes;
  const double sums = links.reduce(elements * std::min<double>(stored, shape.wire_bytes));
  return shape.partition.update_whole ? sums + links.gather(elements * stored) : sums;
}

// Ops with equal marks take equally long.
using Mark = std::tuple<OpKind, int, std::int64_t, std::int64_t>;
Mark mark_of(const schedule::Schedule& list, const Op& op) {
  std::int64_t outputs = 0, gradients = 0;
  for (const schedule::SlotId id : op.births) {
    const schedule::Slot& slot = list.slots[static_cast<std::size_t>(id)];
    outputs += slot.kind == SlotKind::X ? 1 : 0;
    gradients += slot.kind == SlotKind::G ? slot.bytes : 0;
  }
  return {op.kind, op.block, outputs, gradients};
}

}  // namespace

std::vector<double> op_seconds(const schedule::Schedule& list, const spec::ModelSpec& model,
                               const StepShape& shape, const Cluster& cluster) {
  const Node& node = cluster.node_for(shape.partition.ranks);
  KernelSeconds kernels(cluster, node, shape.dtype);
  const LinkSeconds links(cluster, node, shape.partition.ranks);
  std::map<Mark, double> known;
  std::vector<double> seconds;
  for (const Op& op : list.ops) {
    const auto [it, fresh] = known.try_emplace(mark_of(list, op), 0);
    if (fresh)
      it->second = node.stretch * (kernels.of(work_of(list, op, model, shape)) +
                                   moving_seconds(list, op, model, shape, links));
    seconds.push_back(it->second);
  }
  return seconds;
}

std::map<Kernel, double> kernel_seconds(const schedule::Schedule& list, const spec::ModelSpec& model,
                                        const StepShape& shape, const Cluster& cluster) {
  KernelSeconds kernels(cluster, cluster.node_for(shape.partition.ranks), shape.dtype);
  std::map<Mark, std::vector<Work>> known;
  std::map<Kernel, double> seconds;
  for (const Op& op : list.ops) {
    if (op.lane != schedule::Lane::compute) continue;
    const auto [it, fresh] = known.try_emplace(mark_of(list, op));
    if (fresh) it->second = work_of(list, op, model, shape);
    for (const Work& work : it->second)
      seconds[work.kernel] += static_cast<double>(work.calls) * kernels.of(work);
  }
  return seconds;
}

}  // namespace zt::plan
