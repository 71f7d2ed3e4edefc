// What the entry points of libcudart share.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "cuda_emulator/device.h"

#if CUDART_VERSION < 13000 || CUDART_VERSION >= 13010
#error "the emulated GPU is made for CUDA 13.0: its registration functions belong to that version"
#endif

namespace zt::emulator {

inline constexpr int kSharedBytes = 48 << 10;       // a block's dynamic shared memory without asking
inline constexpr int kMostSharedBytes = 227 << 10;  // with asking (sm_90)
inline constexpr int kProcessors = 4;

// Remembers an error for cudaGetLastError and hands it on.
cudaError_t fail(cudaError_t error);
inline cudaError_t if_done(bool done) { return done ? cudaSuccess : fail(cudaErrorLaunchTimeout); }

// The stream of a handle, on its own device. Null (and what means the same) is the legacy default stream of the current one.
Stream* stream_of(cudaStream_t handle);
Event* event_of(cudaEvent_t handle);

}  // namespace zt::emulator
