// Planned and played steps of small models with made-up sizes and times, for tests of what is said and drawn of them.
#pragma once

#include <cstdint>

#include "plan/memory_stack.h"
#include "plan/simulator.h"

namespace zt::test {

// Sizes that differ from block to block, so that a mix-up shows. Several ranks gather weights and reduce every
// micro-batch.
schedule::Schedule small_step(int layers, int micros, int ranks);

// Every op takes its own made-up time; lanes are first-in first-out and ops begin when their waits are over. Gathers
// and reductions take `comm` times as long as a forward.
plan::Simulation played(const schedule::Schedule& list, double comm = 0.5);

}  // namespace zt::test
