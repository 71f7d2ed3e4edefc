#include "plan/collective_cost.h"

#include <algorithm>
#include <cmath>

namespace zt::plan {

// Also 0 / 0: nothing takes no time over any link.
static double moving(double bytes, double bandwidth) { return bytes > 0 ? bytes / bandwidth : 0; }

// The part of the whole that a rank has not got yet: (N-1)/N.
static double others(double ranks) { return ranks > 1 ? (ranks - 1) / ranks : 0; }

// The double nearest to log2 of a whole number is whole only for powers of two, up to 2^48.
static double rounds(double ranks) { return ranks > 1 ? std::ceil(std::log2(ranks)) : 0; }

static double hops(double ranks) { return std::max(ranks - 1, 0.0); }

double least_seconds(double ranks, double bytes, const Link& link) {
  return moving(others(ranks) * bytes, link.bandwidth);
}

double ring_seconds(double ranks, double bytes, const Link& link) {
  return hops(ranks) * link.latency + least_seconds(ranks, bytes, link);
}

double ring_reduce_scatter_seconds(double ranks, double bytes, const Link& link, double gamma) {
  return ring_seconds(ranks, bytes, link) + others(ranks) * bytes * gamma;
}

double ring_all_reduce_seconds(double ranks, double bytes, const Link& link, double gamma) {
  return ring_reduce_scatter_seconds(ranks, bytes, link, gamma) + ring_seconds(ranks, bytes, link);
}

double doubling_seconds(double ranks, double bytes, const Link& link) {
  return rounds(ranks) * link.latency + least_seconds(ranks, bytes, link);
}

double halving_seconds(double ranks, double bytes, const Link& link, double gamma) {
  return doubling_seconds(ranks, bytes, link) + others(ranks) * bytes * gamma;
}

double rabenseifner_seconds(double ranks, double bytes, const Link& link, double gamma) {
  return halving_seconds(ranks, bytes, link, gamma) + doubling_seconds(ranks, bytes, link);
}

double doubling_all_reduce_seconds(double ranks, double bytes, const Link& link, double gamma) {
  if (ranks <= 1) return 0;
  return rounds(ranks) * (link.latency + moving(bytes, link.bandwidth) + bytes * gamma);
}

double pairwise_seconds(double ranks, double bytes, const Link& link) {
  return ring_seconds(ranks, bytes, link);
}

double pipelined_broadcast_seconds(double ranks, double bytes, const Link& link, double chunks) {
  if (ranks <= 1) return 0;
  return (rounds(ranks) + chunks - 1) * (link.latency + moving(bytes, link.bandwidth) / chunks);
}

double best_broadcast_chunks(double ranks, double bytes, const Link& link) {
  if (ranks <= 2 || bytes <= 1 || link.bandwidth <= 0) return 1;
  if (link.latency <= 0) return bytes;
  const double ideal = std::sqrt((rounds(ranks) - 1) * bytes / link.bandwidth / link.latency);
  const double low = std::clamp(std::floor(ideal), 1.0, bytes), high = std::clamp(low + 1, 1.0, bytes);
  const auto seconds = [&](double chunks) { return pipelined_broadcast_seconds(ranks, bytes, link, chunks); };
  return seconds(low) <= seconds(high) ? low : high;
}

double ring_bytes_for_share(double ranks, const Link& link, double share) {
  return ranks * link.latency * link.bandwidth * share / (1 - share);
}

double hierarchical_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                            const Link& between) {
  return ring_seconds(nodes, bytes, between) + ring_seconds(ranks_per_node, bytes, inside);
}

// What a rank adds up: all of the node's sum but its own part, then its part of the other nodes' sums.
static double reducing(double nodes, double ranks_per_node, double bytes, double gamma) {
  return (others(ranks_per_node) + others(nodes) / ranks_per_node) * bytes * gamma;
}

double hierarchical_reduce_scatter_seconds(double nodes, double ranks_per_node, double bytes,
                                           const Link& inside, const Link& between, double gamma) {
  return hierarchical_seconds(nodes, ranks_per_node, bytes, inside, between) +
         reducing(nodes, ranks_per_node, bytes, gamma);
}

double hierarchical_all_reduce_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                                       const Link& between, double gamma) {
  // A node's link carries the all-reduces of its G ranks, S/G each, together: those of S.
  return 2 * hierarchical_seconds(nodes, ranks_per_node, bytes, inside, between) +
         reducing(nodes, ranks_per_node, bytes, gamma);
}

double exchange_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                        const Link& between) {
  const double from_others = ranks_per_node * hops(nodes) * between.latency +
                             moving(ranks_per_node * others(nodes) * bytes, between.bandwidth);
  return from_others + ring_seconds(ranks_per_node, bytes / std::max(nodes, 1.0), inside);
}

double flat_ring_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                         const Link& between) {
  const double ranks = nodes * ranks_per_node;
  if (nodes <= 1) return ring_seconds(ranks, bytes, inside);
  if (ranks_per_node <= 1) return ring_seconds(ranks, bytes, between);
  return ring_seconds(ranks, bytes,
                      {.bandwidth = std::min(inside.bandwidth, between.bandwidth),
                       .latency = std::max(inside.latency, between.latency)});
}

}  // namespace zt::plan
