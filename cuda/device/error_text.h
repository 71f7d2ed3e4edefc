// CUDA's errors in words.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace zt::cuda {

// "out of memory (cudaErrorMemoryAllocation)"; of a driver that is missing or too old, which versions meet.
std::string text(cudaError_t status);

}  // namespace zt::cuda
