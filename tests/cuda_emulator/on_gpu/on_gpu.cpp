// emulator.h for a machine with a GPU: the same tests run against the real libraries, where nothing is watched, so there
// is never a finding, a count or a logged wait. compute-sanitizer looks instead.
#include "cuda_emulator/on_gpu/on_gpu.h"

#include <cuda_runtime_api.h>

#include "cuda_emulator/emulator.h"

namespace zt::emulator {

std::string why_no_gpu() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "no driver for NVIDIA GPUs (libcuda.so.1)";
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  return std::string("no GPU for CUDA ") + std::to_string(CUDART_VERSION / 1000) + "." +
         std::to_string(CUDART_VERSION % 1000 / 10) + ": " + cudaGetErrorString(status) +
         ", the driver is for CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

std::vector<Finding> take_findings() { return {}; }
std::string to_string(const std::vector<Finding>&) { return ""; }
void configure(std::uint64_t, Policy, Order, bool) {}
void set_device_memory(std::size_t) {}
void set_patience_ms(int) {}
Counters counters(const std::string&) { return {}; }
void reset_counters() {}
std::vector<Wait> waits(int) { return {}; }
void forget_wait(int, std::int64_t) {}

}  // namespace zt::emulator
