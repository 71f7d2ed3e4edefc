// Adding to gradients in the number format they are kept in.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace zt::shard {

// dst += src, added in fp32 and rounded once to `dtype` (f32 or bf16).
void add_to(Dtype dtype, void* dst, const float* src, std::int64_t count);

}  // namespace zt::shard
