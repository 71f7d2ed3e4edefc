// Seconds a collective takes, by the alpha-beta-gamma model: a message costs its link's latency (alpha), a
// byte 1 / bandwidth (beta), and adding up a byte gamma seconds. Used by the simulator.
//
// S = `bytes`: the whole tensor, over all ranks. N = `ranks`, K = `nodes`, G = `ranks_per_node`, N = K G.
// Sizes are doubles, so that nothing overflows; counts need not be powers of two. A link without bandwidth
// takes forever, unless nothing moves over it. One rank needs no time.
//
// Sources: Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication operations in MPICH";
// bandwidth terms agree with nccl-tests' bus-bandwidth factors. Not modelled: other traffic on the same
// links.
#pragma once

#include "plan/cluster.h"

namespace zt::plan {

// Ring, all-gather:                          (N-1) alpha + (N-1)/N S beta
double ring_seconds(double ranks, double bytes, const Link& link);
// Ring, reduce-scatter:                      (N-1) alpha + (N-1)/N S (beta + gamma)
double ring_reduce_scatter_seconds(double ranks, double bytes, const Link& link, double gamma);
// Ring, all-reduce: the two together:        2 (N-1) alpha + 2 (N-1)/N S beta + (N-1)/N S gamma
double ring_all_reduce_seconds(double ranks, double bytes, const Link& link, double gamma = 0);

// Recursive doubling, all-gather:            ceil(log2 N) alpha + (N-1)/N S beta
double doubling_seconds(double ranks, double bytes, const Link& link);
// Recursive halving, reduce-scatter:         ceil(log2 N) alpha + (N-1)/N S (beta + gamma)
double halving_seconds(double ranks, double bytes, const Link& link, double gamma = 0);
// Rabenseifner, all-reduce: the two together.
double rabenseifner_seconds(double ranks, double bytes, const Link& link, double gamma = 0);
// Recursive doubling, all-reduce of little:  ceil(log2 N) (alpha + S beta + S gamma)
double doubling_all_reduce_seconds(double ranks, double bytes, const Link& link, double gamma = 0);

// Pairwise, all-to-all:                      (N-1) alpha + (N-1)/N S beta
double pairwise_seconds(double ranks, double bytes, const Link& link);

// Broadcast down a chain of halvings in k chunks: (ceil(log2 N) + k - 1) (alpha + S beta / k); S beta for
// many.
double pipelined_broadcast_seconds(double ranks, double bytes, const Link& link, double chunks);
// The k of the least time, sqrt((ceil(log2 N) - 1) S beta / alpha), as a whole number of at least 1.
double best_broadcast_chunks(double ranks, double bytes, const Link& link);

// No gather or scatter takes less than this:  (N-1)/N S beta
double least_seconds(double ranks, double bytes, const Link& link);
// Bytes from which a ring reaches `share` (0.5, 0.9) of its link's bandwidth: N alpha / beta x share / (1 -
// share).
double ring_bytes_for_share(double ranks, const Link& link, double share);

// In the following `inside` is what a rank has within its node and `between` the link of a whole node. One
// node: all cost what they cost inside.

// Ranks of the same place in each node gather first, then each node inside:
//   (K-1) alpha_e + (K-1)/K S / B_node + (G-1) alpha_i + (G-1)/G S / B_in
// All-gather; reduce-scatter is the same backwards, and adds gamma (G-1)/G S + gamma (K-1)/K S/G.
// Every node must receive S (K-1)/K once, so the second term is a floor.
double hierarchical_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                            const Link& between);
double hierarchical_reduce_scatter_seconds(double nodes, double ranks_per_node, double bytes,
                                           const Link& inside, const Link& between, double gamma);
// Reduce-scatter inside, all-reduce of each rank's S/G across, all-gather inside.
double hierarchical_all_reduce_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                                       const Link& between, double gamma = 0);

// Every rank fetches every other rank's slice by itself, so that a node's link carries G copies:
//   (N-G) alpha_e + G (K-1)/K S / B_node + (G-1) alpha_i + (G-1)/N S / B_in
double exchange_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                        const Link& between);

// Rings through all ranks, one over each of a node's rails, so that slices enter a node once, over its whole
// link:
//   (N-1) max(alpha_i, alpha_e) + (N-1)/N S / min(B_in, B_node)
double flat_ring_seconds(double nodes, double ranks_per_node, double bytes, const Link& inside,
                         const Link& between);

}  // namespace zt::plan
