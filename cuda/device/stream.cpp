#include "device/stream.h"

#include "base/error.h"
#include "base/text.h"
#include "device/error_text.h"

namespace zt::cuda {

static thread_local cudaStream_t entered = nullptr;

cudaStream_t current_stream() {
  if (entered == nullptr) throw Error(Blame::bug, "work for the GPU outside its streams");
  return entered;
}

void enter_stream(cudaStream_t stream) { entered = stream; }

// What cudaErrorInsufficientDriver stands for: also that there is none.
static std::string driver_at_fault() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "there is no driver for NVIDIA GPUs";
  return cat("the driver is for CUDA ", driver / 1000, ".", driver % 1000 / 10, ", this program for CUDA ",
             CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

std::string text(cudaError_t status) {
  if (status == cudaErrorInsufficientDriver) return driver_at_fault();
  return cat(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

// 99 KiB where compute capability is 8.6, 8.9 or 12.0.
static bool has_little_shared_memory() {
  int device = 0, bytes = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
         bytes < (163 << 10);
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const char* hint = "`nvidia-smi` and the system's log (Xid lines) say more";
  if (status == cudaErrorInsufficientDriver)
    hint = "CUDA 13 needs NVIDIA's driver 580 or later; run.device: cpu needs none";
  if (status == cudaErrorNoKernelImageForDevice)
    hint = "the backend is built for compute capability 8.0 and later (A100, H100, B200)";
  if (status == cudaErrorInvalidValue && has_little_shared_memory())
    hint =
        "this GPU gives a block less shared memory than an A100 does, too little for heads of more than 128 "
        "columns and layer norms of more than 12,288";
  if (status == cudaErrorDevicesUnavailable)
    hint = "another process may hold the GPU alone: `nvidia-smi -q -d COMPUTE` shows its compute mode";
  throw Error(Blame::machine, cat(what, ": ", text(status)), hint);
}

}  // namespace zt::cuda
