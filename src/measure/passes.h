// What a step does outside the kernels of its blocks, and what the stopwatch leaves out: measured alone.
#pragma once

#include "measure/kernel_rates.h"
#include "measure/stopwatch.h"

namespace zt::measure {

// Adds clear, add, dropout, bias and cross_entropy, at sizes that stay in a cache and at some that do not. Collective.
void time_passes(comm::Communicator& ranks, Dtype dtype, bool quick, std::map<Size, double>& seconds);

}  // namespace zt::measure
