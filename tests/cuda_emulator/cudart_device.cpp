// Entry points of libcudart: devices, errors, versions.
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"

using namespace zt::emulator;

namespace zt::emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

int attribute_of(cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return kSharedBytes;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return kMostSharedBytes;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 << 10;
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1 << 10;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMultiProcessorCount: return kProcessors;
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrL2CacheSize: return 50 << 20;
    case cudaDevAttrClockRate: return 1'000'000;
    case cudaDevAttrPciBusId: return device + 1;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId: return 0;
    case cudaDevAttrAsyncEngineCount: return 2;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch: return 1;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode: return 0;
    default:
      stop(cat("device attribute ", static_cast<int>(attribute), " is not known"), CallStack::here().text());
  }
}

bool exists(int device) { return device >= 0 && device < Device::count(); }

}  // namespace

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

Stream* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return Device::current().legacy_stream();
  for (Device* device : Device::used())
    if (Stream* stream = device->find_stream(handle)) return stream;
  stop("a stream handle that no cudaStreamCreate gave", CallStack::here().text());
}

Event* event_of(cudaEvent_t handle) {
  for (Device* device : Device::used()) {
    Event* event = device->find_event(handle);
    if (event == nullptr) continue;
    if (event->destroyed)
      report("event", "an event is used after its cudaEventDestroy", CallStack::here().text());
    return event;
  }
  stop("an event handle that no cudaEventCreate gave", CallStack::here().text());
}

}  // namespace zt::emulator

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Device::count();
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  Device::set_current(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = Device::current_index();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "emulated sm_90a");
  std::memset(p.uuid.bytes, device + 1, sizeof p.uuid.bytes);
  p.totalGlobalMem = device_memory_limit();
  p.sharedMemPerBlock = kSharedBytes;
  p.sharedMemPerBlockOptin = kMostSharedBytes;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = 9;
  p.multiProcessorCount = kProcessors;
  p.l2CacheSize = 50 << 20;
  p.pciBusID = device + 1;
  p.asyncEngineCount = 2;
  p.concurrentKernels = p.unifiedAddressing = p.memoryPoolsSupported = p.cooperativeLaunch = 1;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  *value = attribute_of(attribute, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!exists(device)) return fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x:", &domain, &bus) != 2 || !exists(static_cast<int>(bus) - 1))
    return fail(cudaErrorInvalidDevice);
  *device = static_cast<int>(bus) - 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return if_done(Device::current().synchronize_all("cudaDeviceSynchronize"));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchTimeout: return "cudaErrorLaunchTimeout";
    default: return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorLaunchTimeout: return "the emulated device hangs";
    default: return "emulated CUDA error";
  }
}
}
