// Limits of what is planned, so that no sum of bytes overflows 64 bits.
#pragma once

#include <cstdint>

#include "plan/step_plan.h"

namespace zt::plan {

// An exbibyte: the most bytes that one rank, its step's traffic or a node can need.
inline constexpr double kMostCounted = static_cast<double>(std::int64_t{1} << 60);

// Error(usage) that says which bytes of the run are more than that, or more than one piece of memory can have.
void require_countable(const spec::ModelSpec& model, const StepShape& shape);

// `bytes`, or an exbibyte where it is more.
std::int64_t capped(double bytes);

}  // namespace zt::plan
