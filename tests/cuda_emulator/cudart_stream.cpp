// Entry points of libcudart: streams, events, host functions.
#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"

using namespace zt::emulator;
using zt::cat;

namespace {

cudaError_t status_of(Ready ready) {
  switch (ready) {
    case Ready::yes: return cudaSuccess;
    case Ready::not_yet: return cudaErrorNotReady;
    case Ready::never: return fail(cudaErrorLaunchTimeout);
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  Stream* stream = Device::current().create_stream(flags, priority);
  if ((flags & cudaStreamNonBlocking) == 0)
    report("blocking stream",
           cat("stream ", stream->number,
               " is made without cudaStreamNonBlocking: it waits for the default stream"),
           CallStack::here().text());
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }

// Returns at once, as CUDA does; what is enqueued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Stream* stream = stream_of(handle);
  if (stream->destroyed)
    report("destroyed stream", cat("stream ", stream->number, " is destroyed twice"),
           CallStack::here().text());
  stream->destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  *flags = stream_of(handle)->flags;
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  *priority = stream_of(handle)->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Stream* stream = stream_of(handle);
  return if_done(stream->device->synchronize(stream, "cudaStreamSynchronize"));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Stream* stream = stream_of(handle);
  return status_of(stream->device->query(stream, "cudaStreamQuery"));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  Stream* stream = stream_of(handle);
  Event* event = event_of(event_handle);
  if (!event->recorded) {
    report("event",
           cat("stream ", stream->number, " waits for an event that was never recorded, so for nothing"),
           CallStack::here().text());
    return cudaSuccess;
  }
  if (event->device != stream->device) {
    report("wrong device",
           cat("a stream of device ", stream->device->index(), " waits for an event of device ",
               event->device->index()),
           CallStack::here().text());
    return cudaSuccess;
  }
  if (stream->destroyed)
    report("destroyed stream", cat("stream ", stream->number, " was destroyed and is told to wait"),
           CallStack::here().text());
  stream->device->wait_for(stream, event);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  Stream* stream = stream_of(handle);
  stream->device->enqueue(stream, "host function", [=] {
    function(argument);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  *handle =
      reinterpret_cast<cudaEvent_t>(Device::current().create_event((flags & cudaEventDisableTiming) == 0));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  event_of(handle)->destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  Event* event = event_of(handle);
  Stream* stream = stream_of(stream_handle);
  if (event->device != stream->device) {
    report("wrong device",
           cat("an event of device ", event->device->index(), " is recorded on device ",
               stream->device->index()),
           CallStack::here().text());
    return fail(cudaErrorInvalidResourceHandle);
  }
  if (stream->destroyed)
    report("destroyed stream",
           cat("an event is recorded on stream ", stream->number, ", which was destroyed"),
           CallStack::here().text());
  stream->device->record(event, stream);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  Event* event = event_of(handle);
  if (!event->recorded)
    report("event", "the host waits for an event that was never recorded, so for nothing",
           CallStack::here().text());
  return if_done(event->device->synchronize(event, "cudaEventSynchronize"));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  Event* event = event_of(handle);
  return status_of(event->device->query(event, "cudaEventQuery"));
}

// A millisecond passes whenever a piece of work ends.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (const Event* event : {event_of(begin), event_of(end)}) {
    if (!event->recorded || !event->timing) return fail(cudaErrorInvalidResourceHandle);
    if (event->work && !event->work->done) return cudaErrorNotReady;
  }
  *milliseconds = float(double(end_of(event_of(end))) - double(end_of(event_of(begin))));
  return cudaSuccess;
}
}
