// sum += more on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace zt::cuda {

// f32 or bf16 sums; added in fp32 and rounded once, to nearest even.
void add_on_stream(Dtype dtype, void* sum, const float* more, std::int64_t count, cudaStream_t stream);

}  // namespace zt::cuda
