// The one place where contributions of ranks are added: every transport calls it, so all have the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace zt::comm {

// One rank's values: where they lie, and in which format.
struct Part {
  const std::byte* data;
  Dtype stored;
};

// out[i] = sum over ranks of wire(part[i]), added in fp32 in the order of `parts`, rounded once to `dtype`.
// Parts that are stored wider than `wire` are rounded through it first, so it makes no difference which of
// them travelled. Formats are f32 and bf16. `out` may be one of the parts.
void sum_in_rank_order(std::span<const Part> parts, Dtype wire, Dtype dtype, std::byte* out, std::int64_t n);

// The same values in the wire's format, rounded to nearest even; a copy when the formats are equal.
void to_wire(const std::byte* from, Dtype dtype, Dtype wire, std::byte* to, std::int64_t n);

}  // namespace zt::comm
