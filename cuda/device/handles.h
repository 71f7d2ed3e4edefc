// Streams and events of CUDA that end with their owner. Move-only.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace zt::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

// Never waits for the legacy default stream, nor lets that wait. A greater `urgency` goes first where blocks compete.
Stream make_stream(int urgency = 0);
// Without times unless it is `timed`: they cost the GPU a little.
Event make_event(bool timed = false);

}  // namespace zt::cuda
