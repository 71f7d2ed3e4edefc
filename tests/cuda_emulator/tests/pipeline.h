// The parameter prefetch of a trainer in small: every rank holds a shard of every layer; the whole layer l + 1 is gathered on
// one stream while layer l multiplies on another, through two buffers, with events both ways. Each `Bug` is left out or put
// in at one place.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

namespace zt::emulator {

enum class Bug {
  none,
  compute_before_gather,   // layer 4 does not wait until its weights are there
  gather_before_last_use,  // a buffer is gathered into while a product may still read it
  free_on_wrong_stream,    // cudaFreeAsync in a stream that knows nothing of the last use
  pinned_refilled,         // the host writes its pinned buffer before the copy from it ran
  result_read_early,       // the host reads the result without waiting for the copy
  shared_workspace,        // products on two streams with one workspace
  swapped_collectives,     // rank 1 makes two calls in the other order
  short_count,             // rank 1 gathers fewer elements
};

inline constexpr Bug kBugs[] = {
    Bug::compute_before_gather, Bug::gather_before_last_use, Bug::free_on_wrong_stream, Bug::pinned_refilled,
    Bug::result_read_early,     Bug::shared_workspace,       Bug::swapped_collectives,  Bug::short_count};

std::string name(Bug bug);
// The kinds by which a bug may be found.
std::vector<std::string> kinds(Bug bug);

// Runs on device `rank`; returns the greatest difference from a product on the host, a large number where that is NaN.
double run_pipeline(int rank, int ranks, const ncclUniqueId& id, Bug bug);

// The same with ranks as threads of this process; the greatest of all.
double run_pipeline_in_threads(int ranks, Bug bug);

}  // namespace zt::emulator
