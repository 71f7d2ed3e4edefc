// Entry points of libcudart: what nvcc's objects call to register their kernels, launches, attributes of kernels.
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"
#include "cuda_emulator/kernels.h"

using namespace zt::emulator;
using zt::cat;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

int dynamic_limit(const Kernel& kernel, const ptx::KernelInfo& info) {
  if (kernel.allowed_dynamic >= 0) return kernel.allowed_dynamic;
  return kSharedBytes - static_cast<int>(info.static_shared_bytes);
}

// Empty if the launch is allowed.
std::string what_is_wrong(const Kernel& kernel, const ptx::KernelInfo& info, const Configuration& c) {
  const std::size_t threads = std::size_t{c.block.x} * c.block.y * c.block.z;
  if (threads == 0 || threads > 1024 || c.block.z > 64)
    return cat("blocks of ", c.block.x, "x", c.block.y, "x", c.block.z, " threads");
  if (info.max_threads != 0 && threads > info.max_threads)
    return cat("blocks of ", threads, " threads, its launch bounds say ", info.max_threads);
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0 || c.grid.x > 0x7fffffffU || c.grid.y > 65535 ||
      c.grid.z > 65535)
    return cat("a grid of ", c.grid.x, "x", c.grid.y, "x", c.grid.z, " blocks");
  const int limit = dynamic_limit(kernel, info);
  if (c.shared_bytes > static_cast<std::size_t>(limit))
    return cat(c.shared_bytes, " bytes of dynamic shared memory, ", limit, " are allowed",
               kernel.allowed_dynamic < 0 ? " without cudaFuncSetAttribute" : "");
  return "";
}

std::vector<std::byte> pack(const ptx::KernelInfo& info, void** arguments) {
  std::vector<std::byte> packed(info.parameter_bytes);
  for (std::size_t i = 0; i < info.parameters.size(); ++i)
    std::memcpy(packed.data() + info.parameters[i].offset, arguments[i], info.parameters[i].bytes);
  return packed;
}

ptx::Order order_of(Order order) {
  switch (order) {
    case Order::forward: return ptx::Order::forward;
    case Order::reverse: return ptx::Order::reverse;
    case Order::random: return ptx::Order::random;
  }
  return ptx::Order::random;
}

void run(const Kernel& kernel, Device& device, const Configuration& c,
         const std::vector<std::byte>& parameters) {
  ptx::Launch launch;
  launch.kernel = kernel.mangled;
  launch.grid = {c.grid.x, c.grid.y, c.grid.z};
  launch.block = {c.block.x, c.block.y, c.block.z};
  launch.dynamic_shared_bytes = static_cast<std::uint32_t>(c.shared_bytes);
  launch.parameters = parameters;
  launch.seed = device.random().next();
  launch.order = order_of(settings().order);
  launch.check = settings().check;
  try {
    count(kernel.name, kernel.binary->on(device).run(launch));
  } catch (const zt::Error& e) {
    stop(e.what(), kernel.name);
  }
}

const ptx::KernelInfo& info_of(const Kernel& kernel, Device& device) {
  try {
    return kernel.binary->on(device).info(kernel.mangled);
  } catch (const zt::Error& e) {
    stop(e.what(), kernel.name);
  }
}

cudaError_t launch(const void* stub, const Configuration& c, void** arguments) {
  const Kernel& kernel = kernel_of(stub);
  Stream* stream = stream_of(c.stream);
  Device& device = *stream->device;
  if (device.index() != Device::current_index()) {
    report("wrong device",
           cat(kernel.name, " is launched on a stream of device ", device.index(), " while device ",
               Device::current_index(), " is current"),
           CallStack::here().text());
    return fail(cudaErrorInvalidResourceHandle);
  }
  const ptx::KernelInfo& info = info_of(kernel, device);
  if (const std::string wrong = what_is_wrong(kernel, info, c); !wrong.empty()) {
    report("launch", cat(kernel.name, " is launched with ", wrong), CallStack::here().text());
    return fail(cudaErrorInvalidConfiguration);
  }
  device.enqueue(stream, kernel.name, [&kernel, &device, c, parameters = pack(info, arguments)] {
    run(kernel, device, c, parameters);
    return true;
  });
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) { return reinterpret_cast<void**>(new FatBinary(wrapper)); }
void __cudaRegisterFatBinaryEnd(void**) {}
// Modules stay: streams may still hold their launches while the process ends.
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** binary, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  add_kernel(stub, reinterpret_cast<FatBinary*>(binary), name);
}

// The module places its variables itself; the host cannot address them.
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared_bytes = c.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return launch(reinterpret_cast<const void*>(kernel), {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return launch(stub, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      Kernel& kernel = kernel_of(stub);
      const ptx::KernelInfo& info = info_of(kernel, Device::current());
      if (value < 0 || value + static_cast<int>(info.static_shared_bytes) > kMostSharedBytes) {
        report("launch",
               cat(kernel.name, " asks for ", value, " bytes of dynamic shared memory beside ",
                   info.static_shared_bytes, " of its own; a block has ", kMostSharedBytes),
               CallStack::here().text());
        return fail(cudaErrorInvalidValue);
      }
      kernel.allowed_dynamic = value;
      return cudaSuccess;
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout: return cudaSuccess;
    default:
      stop(cat("kernel attribute ", static_cast<int>(attribute), " is not known"), CallStack::here().text());
  }
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  const Kernel& kernel = kernel_of(stub);
  const ptx::KernelInfo& info = info_of(kernel, Device::current());
  *attributes = {};
  attributes->sharedSizeBytes = info.static_shared_bytes;
  attributes->maxDynamicSharedSizeBytes = dynamic_limit(kernel, info);
  attributes->maxThreadsPerBlock = info.max_threads != 0 ? static_cast<int>(info.max_threads) : 1024;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

// Registers are not known here, so threads and shared memory alone decide.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads,
                                                          std::size_t shared_bytes) {
  const ptx::KernelInfo& info = info_of(kernel_of(stub), Device::current());
  const auto shared = static_cast<int>(shared_bytes + info.static_shared_bytes) + (1 << 10);
  *blocks = std::min({32, 2048 / std::max(threads, 1), (228 << 10) / shared});
  return cudaSuccess;
}
}
