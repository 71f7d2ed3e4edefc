// Entry points of libcudart: memory, copies, fills.
#include <cstring>
#include <memory>
#include <vector>

#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"

using namespace zt::emulator;
using zt::cat;

namespace {

enum class Where { pageable, pinned, device };

Where where(const void* address) {
  const Memory* memory = Memory::of(address);
  if (memory == nullptr) return Where::pageable;
  const Allocation* a = memory->find(address);
  return a != nullptr && a->place == Place::pinned ? Where::pinned : Where::device;
}

cudaMemcpyKind kind_of(Where from, Where to) {
  if (to == Where::device) return from == Where::device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from == Where::device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost: return "host to host";
    case cudaMemcpyHostToDevice: return "host to device";
    case cudaMemcpyDeviceToHost: return "device to host";
    case cudaMemcpyDeviceToDevice: return "device to device";
    case cudaMemcpyDefault: return "default";
  }
  return "unknown";
}

// `rows` rows of `width` bytes; one row is a plain copy.
struct Copy {
  char* to;
  std::size_t to_pitch;
  const char* from;
  std::size_t from_pitch;
  std::size_t width, rows;
};

bool run(const Copy& c) {
  for (std::size_t r = 0; r < c.rows; ++r) {
    const char* from = c.from + r * c.from_pitch;
    char* to = c.to + r * c.to_pitch;
    const bool readable = op_reads(from, c.width);
    if (op_writes(to, c.width) && readable) std::memmove(to, from, c.width);
  }
  return true;
}

// As CUDA does: a pageable source is read before the call returns, a copy to pageable memory is complete when it does.
cudaError_t copy(Copy c, cudaMemcpyKind kind, cudaStream_t handle, bool host_waits, const char* call) {
  if (c.width == 0 || c.rows == 0) return cudaSuccess;
  const Where from = where(c.from), to = where(c.to);
  const cudaMemcpyKind real = kind_of(from, to);
  if (kind != cudaMemcpyDefault && kind != real) {
    report("memcpy kind", cat("a copy declared ", name_of(kind), " goes ", name_of(real)),
           CallStack::here().text());
    return fail(cudaErrorInvalidMemcpyDirection);
  }
  std::shared_ptr<std::vector<char>> staged;
  if (from == Where::pageable) {
    staged = std::make_shared<std::vector<char>>(c.width * c.rows);
    for (std::size_t r = 0; r < c.rows; ++r)
      std::memcpy(staged->data() + r * c.width, c.from + r * c.from_pitch, c.width);
    c.from = staged->data();
    c.from_pitch = c.width;
  }
  Stream* stream = stream_of(handle);
  const WorkPtr work = stream->device->enqueue(
      stream, cat("copy of ", c.width * c.rows, " bytes ", name_of(real)), [c, staged] { return run(c); });
  if (!host_waits && to != Where::pageable) return cudaSuccess;
  return if_done(stream->device->synchronize(stream, call));
}

cudaError_t fill(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                 cudaStream_t handle) {
  if (width == 0 || rows == 0) return cudaSuccess;
  if (where(to) == Where::pageable) {
    report("bad address in kernel", "cudaMemset is given ordinary host memory", CallStack::here().text());
    return fail(cudaErrorInvalidValue);
  }
  Stream* stream = stream_of(handle);
  stream->device->enqueue(stream, cat("fill of ", width * rows, " bytes"), [=] {
    for (std::size_t r = 0; r < rows; ++r) {
      char* row = static_cast<char*>(to) + r * pitch;
      if (op_writes(row, width)) std::memset(row, value, width);
    }
    return true;
  });
  return cudaSuccess;
}

cudaError_t allocate(void** address, std::size_t bytes, Place place, const char* call) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = Device::current().memory().allocate(bytes, place, call);
  return *address != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

// CUDA lets the device finish first; here the host must have waited for the last use, because a program that relies on
// the hidden wait loses it as soon as it keeps its memory.
cudaError_t release(void* address, const char* call) {
  if (address == nullptr) return cudaSuccess;
  Memory* memory = Memory::of(address);
  if (memory == nullptr) {
    report("bad free", cat(call, " is given ordinary host memory"), CallStack::here().text());
    return fail(cudaErrorInvalidValue);
  }
  Device& device = Device::get(memory->device());
  Op op;
  {
    const std::lock_guard lock(device.mutex());
    op = device.host_op();
  }
  op.name = call;
  // What still waits to run must have left its marks before they are looked at.
  if (!device.finish(call)) return fail(cudaErrorLaunchTimeout);
  memory->check_release(address, op);
  memory->release(address, op);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return allocate(address, bytes, Place::device, "cudaMalloc");
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate(address, bytes, Place::pinned, "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return allocate(address, bytes, Place::pinned, "cudaHostAlloc");
}

cudaError_t cudaFree(void* address) { return release(address, "cudaFree"); }
cudaError_t cudaFreeHost(void* address) { return release(address, "cudaFreeHost"); }

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t handle) {
  Stream* stream = stream_of(handle);
  Memory& memory = stream->device->memory();
  *address = memory.allocate(bytes, Place::device, "cudaMallocAsync");
  if (*address == nullptr) return fail(cudaErrorMemoryAllocation);
  const std::lock_guard lock(stream->device->mutex());
  memory.born(*address, *stream->device->enqueue(stream, "cudaMallocAsync", nullptr)->op);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  if (address == nullptr) return cudaSuccess;
  Stream* stream = stream_of(handle);
  stream->device->enqueue(stream, "cudaFreeAsync", [=] {
    stream->device->memory().check_release(address, *current_op());
    stream->device->memory().release(address, *current_op());
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = device_memory_limit();
  *free = *total - Device::current().memory().used();
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->device = -1;
  attributes->type = cudaMemoryTypeUnregistered;
  if (where(address) == Where::pageable) return cudaSuccess;
  const bool pinned = where(address) == Where::pinned;
  attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = Memory::of(address)->device();
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = pinned ? const_cast<void*>(address) : nullptr;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy({static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1}, kind, stream,
              false, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy({static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1}, kind, nullptr,
              true, "cudaMemcpy");
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return fail(cudaErrorInvalidValue);
  return copy({static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, rows},
              kind, stream, false, "cudaMemcpy2DAsync");
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(to, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(to, bytes, value, bytes, 1, nullptr);
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                              cudaStream_t stream) {
  return fill(to, pitch, value, width, rows, stream);
}
}
