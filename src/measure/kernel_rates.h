// Rates of kernels as they run inside steps, measured with a stopwatch in front of each.
#pragma once

#include <vector>

#include "measure/calibrate.h"

namespace zt::measure {

// Rates in `dtype` of one rank, while all of `ranks` compute; `call_seconds` is taken off each call. Collective.
std::vector<plan::Rate> kernel_rates(comm::Communicator& ranks, recipe::ModelDtype dtype, double call_seconds,
                                     const Options& options);

// What a kernel call costs beside its work: one on next to nothing. Collective.
double measure_call_seconds(comm::Communicator& ranks, const Options& options);
// Bytes a second of a copy far larger than all caches, read and written. Collective.
double measure_memory_bandwidth(comm::Communicator& ranks, const Options& options);

Dtype tensor_dtype(recipe::ModelDtype dtype);

}  // namespace zt::measure
