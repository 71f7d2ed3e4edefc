// How many threads a rank computes with.
#pragma once

namespace zt::device {

// Processors this process may run on.
int cores();
// Kernels called from this thread use `threads` threads. The environment's OMP_NUM_THREADS has precedence.
void compute_with(int threads);
// How many they use now.
int threads();
// The share of one of `ranks` ranks that run on this node: all processors where a launcher has bound the process to
// its own, else an equal share of them; at least one.
int threads_of_rank(int ranks);

}  // namespace zt::device
