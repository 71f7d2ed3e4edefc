// Which GPU a rank computes on.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace zt::cuda {

struct Choice {
  int ordinal = 0;     // among the GPUs this process may use (CUDA_VISIBLE_DEVICES)
  std::string bus_id;  // "0000:1b:00.0": the same GPU has the same one in every process of the node
};

// How many GPUs this process may use that the kernels run on; where there are none, why.
int usable_gpus(std::string* why_none);

// The GPU of each rank: its number among the ranks of its host, modulo the GPUs it may use. Collective. On every rank,
// naming ranks, host and GPU: Error(usage) where two ranks would share one; Error(machine) where a rank has none, or one
// that is too old for the kernels.
Choice choose_gpu(comm::Communicator& ranks);

}  // namespace zt::cuda
