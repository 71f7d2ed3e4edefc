// What a step does outside the kernels of its blocks, and what the stopwatch leaves out: measured alone.
#pragma once

#include "measure/kernel_rates.h"
#include "measure/stopwatch.h"

namespace zt::measure {

// Adds clear, add, bias and cross_entropy at a size that stays in a cache and at one that does not. Collective.
void time_passes(comm::Communicator& ranks, Dtype dtype, bool quick, std::map<Size, double>& seconds);

}  // namespace zt::measure
