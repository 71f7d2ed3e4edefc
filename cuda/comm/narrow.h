// Gradients kept in fp32 that travel as bf16: what the two ends of the way do to them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zt::cuda {

// packed_RC = `count` elements of each rank's slice of whole_RS, from element `first` of the slice, rounded to nearest even.
// Slices have `slice` elements.
void pack_on_stream(const float* whole_RS, std::int64_t slice, std::int64_t first, std::int64_t count,
                    int ranks, void* packed_RC, cudaStream_t stream);

// sum_C[i] = parts_RC[0][i] + parts_RC[1][i] + ..., in fp32 and in this order.
void sum_on_stream(const void* parts_RC, std::int64_t count, int ranks, float* sum_C, cudaStream_t stream);

}  // namespace zt::cuda
