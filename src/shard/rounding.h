// Plain conversions between fp32 and a number format, as the store and the sums of gradients need them.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace zt::shard {

// Rounds to nearest even into `dst` (f32, bf16 or f16), and back.
void round_to(Dtype dtype, const float* src, void* dst, std::int64_t count);
void widen(Dtype dtype, const void* src, float* dst, std::int64_t count);
// dst += src, added in fp32 and rounded once to `dtype` (f32 or bf16).
void add_to(Dtype dtype, void* dst, const float* src, std::int64_t count);

}  // namespace zt::shard
