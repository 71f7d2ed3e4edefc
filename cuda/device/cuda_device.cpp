#include "device/cuda_device.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "device/add.h"
#include "device/handles.h"
#include "device/stream.h"
#include "schedule/op.h"

namespace zt::cuda {

Stream make_stream(int urgency) {
  int least = 0, most = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &most), "cannot ask the GPU for its priorities");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, std::max(most, least - urgency)),
        "cannot create a stream");
  return Stream(stream);
}

Event make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "cannot create an event");
  return Event(event);
}

struct CudaDevice::Handles {
  std::array<Stream, schedule::kLanes> lanes;
  std::array<Event, schedule::kLanes> ends;  // of each lane's part of a list
  Event begin;
  std::vector<Event> starts, marks;  // of ops
};

static void record(const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cannot record an event");
}

static void wait_for_event(cudaStream_t stream, const Event& event) {
  check(cudaStreamWaitEvent(stream, event.get(), 0), "cannot wait for an event");
}

static double seconds_between(const Event& from, const Event& to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "cannot read the GPU's clock");
  return double(milliseconds) / 1e3;
}

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal), handles_(std::make_unique<Handles>()) {
  check(cudaSetDevice(ordinal), "cannot use the GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cannot ask the GPU for its name");
  name_ = properties.name;
  // What waits for other ranks goes before what waits for nobody.
  for (std::size_t lane = 0; lane < handles_->lanes.size(); ++lane) {
    handles_->lanes[lane] = make_stream(static_cast<schedule::Lane>(lane) == schedule::Lane::comm ? 1 : 0);
    handles_->ends[lane] = make_event();
  }
  handles_->begin = make_event(true);
  enter(0);
}

CudaDevice::~CudaDevice() {
  for (const Stream& lane : handles_->lanes) cudaStreamSynchronize(lane.get());
  enter_stream(nullptr);
}

// Free bytes and all.
static std::pair<std::int64_t, std::int64_t> memory_of_gpu() {
  std::size_t free_now = 0, all = 0;
  check(cudaMemGetInfo(&free_now, &all), "cannot ask the GPU for its free memory");
  return {static_cast<std::int64_t>(free_now), static_cast<std::int64_t>(all)};
}

std::int64_t CudaDevice::available_bytes() const { return memory_of_gpu().first; }

device::Arena CudaDevice::claim(std::int64_t bytes, const std::string& purpose) {
  if (bytes == 0) return {};
  const auto [free_now, all] = memory_of_gpu();
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes)); status != cudaSuccess) {
    cudaGetLastError();  // forgotten: it is told here
    throw Error(
        Blame::machine,
        cat("not enough memory on the GPU: ", purpose, " needs ", human_bytes(bytes), ", ",
            human_bytes(free_now), " of ", human_bytes(all), " are free"),
        "a smaller train.micro_batch_size, memory.recompute: full or model.dtype: bfloat16 needs less");
  }
  const auto release = [this](std::byte* at) {
    for (const Stream& lane : handles_->lanes) cudaStreamSynchronize(lane.get());
    cudaFree(at);
  };
  device::Arena arena(static_cast<std::byte*>(data), bytes, release);
  fill(data, 0, bytes);
  synchronize();
  return arena;
}

void CudaDevice::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0 || to == from) return;
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, current_stream()),
      "cannot copy inside the GPU");
}

void CudaDevice::fill(void* at, std::uint8_t byte, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(at, byte, static_cast<std::size_t>(bytes), current_stream()),
        "cannot fill memory of the GPU");
}

void CudaDevice::add(Dtype dtype, void* sum, const float* more, std::int64_t count) {
  if (count > 0) add_on_stream(dtype, sum, more, count, current_stream());
}

// From pageable memory CUDA has taken the bytes when it returns, but for the wait.
void CudaDevice::to_device(void* to, const void* host, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, current_stream()),
        "cannot copy to the GPU");
  synchronize();
}

void CudaDevice::to_host(void* host, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, current_stream()),
      "cannot copy from the GPU");
  synchronize();
}

void CudaDevice::synchronize() {
  using namespace std::chrono_literals;
  if (!look_) return check(cudaStreamSynchronize(current_stream()), "the GPU has failed");
  while (true) {
    const cudaError_t status = cudaStreamQuery(current_stream());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "the GPU has failed");
    cudaGetLastError();  // "not ready" is no error to remember
    look_();
    std::this_thread::sleep_for(20us);
  }
}

// What lane 0 was given before the list comes before all of it.
void CudaDevice::begin(int ops) {
  while (static_cast<int>(handles_->marks.size()) < ops) {
    handles_->starts.push_back(make_event(true));
    handles_->marks.push_back(make_event(true));
  }
  enter(0);
  record(handles_->begin, current_stream());
  for (std::size_t lane = 1; lane < handles_->lanes.size(); ++lane)
    wait_for_event(handles_->lanes[lane].get(), handles_->begin);
}

void CudaDevice::enter(int lane) { enter_stream(handles_->lanes[static_cast<std::size_t>(lane)].get()); }

void CudaDevice::wait_for(int op) {
  wait_for_event(current_stream(), handles_->marks[static_cast<std::size_t>(op)]);
}

void CudaDevice::start(int op) { record(handles_->starts[static_cast<std::size_t>(op)], current_stream()); }

void CudaDevice::mark(int op) { record(handles_->marks[static_cast<std::size_t>(op)], current_stream()); }

device::Interval CudaDevice::time_of(int op) {
  const auto number = static_cast<std::size_t>(op);
  const double start = seconds_between(handles_->begin, handles_->starts[number]);
  return {start, start + seconds_between(handles_->starts[number], handles_->marks[number])};
}

void CudaDevice::finish() {
  for (std::size_t lane = 1; lane < handles_->lanes.size(); ++lane) {
    record(handles_->ends[lane], handles_->lanes[lane].get());
    wait_for_event(handles_->lanes[0].get(), handles_->ends[lane]);
  }
  enter(0);
  synchronize();
}

}  // namespace zt::cuda
