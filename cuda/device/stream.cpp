#include "device/stream.h"

#include "base/error.h"
#include "base/text.h"

namespace zt::cuda {

static thread_local cudaStream_t entered = nullptr;

cudaStream_t current_stream() {
  if (entered == nullptr) throw Error(Blame::bug, "work for the GPU outside its streams");
  return entered;
}

void enter_stream(cudaStream_t stream) { entered = stream; }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const char* const hint = status == cudaErrorInsufficientDriver
                               ? "install a driver that supports CUDA 13.0, or set run.device: cpu"
                               : "`nvidia-smi` and the system's log (Xid lines) say more";
  throw Error(Blame::machine,
              cat(what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"), hint);
}

}  // namespace zt::cuda
