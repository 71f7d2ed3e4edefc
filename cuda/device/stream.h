// The stream that the calling thread enqueues on, and errors of CUDA as the project's.
#pragma once

#include <cuda_runtime_api.h>

namespace zt::cuda {

// Error(bug) where the thread has entered none.
cudaStream_t current_stream();
// What this thread enqueues from now on goes there.
void enter_stream(cudaStream_t stream);

// Error(machine) unless it succeeded; `what` says what was tried: "cannot copy to the GPU".
void check(cudaError_t status, const char* what);

}  // namespace zt::cuda
