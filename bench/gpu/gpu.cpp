#include "gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "device/handles.h"
#include "device/stream.h"

namespace zt::bench {
namespace {

using cuda::check;

// With times, unlike those of the backend.
cuda::Event timed_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cannot create an event");
  return cuda::Event(event);
}

void put(Dtype dtype, std::byte* at, float value) {
  const bf16 b(value);
  const f16 h(value);
  switch (dtype) {
    case Dtype::f32: std::memcpy(at, &value, 4); break;
    case Dtype::bf16: std::memcpy(at, &b, 2); break;
    case Dtype::f16: std::memcpy(at, &h, 2); break;
    case Dtype::i32: throw Error(Blame::bug, "normal whole numbers");
  }
}

// Box & Muller 1958.
float normal_number(const RandomStream& random, std::uint64_t at) {
  const auto uniform = [&](std::uint64_t i) { return (double(random.u64(i) >> 11) + 0.5) * 0x1p-53; };
  return float(std::sqrt(-2 * std::log(uniform(2 * at))) * std::cos(6.283185307179586 * uniform(2 * at + 1)));
}

}  // namespace

Gpu::Gpu(bool tiny)
    : tiny_(tiny),
      device_(0),
      kernels_(std::make_unique<kernels::CudaKernels>(
          1, tiny ? std::int64_t{1} << 19 : kernels::CudaKernels::kScratchBytes)) {}

View Gpu::zeros(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  memory_.push_back(device_.claim(rows * cols * size_of(dtype), "a benchmark's matrix"));
  return View(memory_.back().at(0), dtype, rows, cols);
}

// A million numbers from the host, and copies of them.
View Gpu::normal(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  const View v = zeros(dtype, rows, cols);
  const RandomStream random{.seed = 1, .a = std::uint32_t(memory_.size())};
  const std::int64_t first = std::min<std::int64_t>(v.size(), 1 << 20);
  std::vector<std::byte> host(std::size_t(first * size_of(dtype)));
  for (std::int64_t i = 0; i < first; ++i)
    put(dtype, host.data() + i * size_of(dtype), normal_number(random, std::uint64_t(i)));
  device_.to_device(v.data, host.data(), std::int64_t(host.size()));
  auto* const bytes = static_cast<std::byte*>(v.data);
  for (std::int64_t done = first; done < v.size();) {
    const std::int64_t count = std::min(done, v.size() - done);
    device_.copy(bytes + done * size_of(dtype), bytes, count * size_of(dtype));
    done += count;
  }
  device_.synchronize();
  return v;
}

View Gpu::whole_numbers(std::int64_t count, const std::function<std::int32_t(std::int64_t)>& f) {
  const View v = zeros(Dtype::i32, 1, count);
  std::vector<std::int32_t> host;
  for (std::int64_t i = 0; i < count; ++i) host.push_back(f(i));
  device_.to_device(v.data, host.data(), count * 4);
  return v;
}

double Gpu::round(int calls, const std::function<void()>& work) {
  const cuda::Event begin = timed_event(), end = timed_event();
  const cudaStream_t stream = cuda::current_stream();
  check(cudaEventRecord(begin.get(), stream), "cannot record an event");
  for (int i = 0; i < calls; ++i) work();
  check(cudaEventRecord(end.get(), cuda::current_stream()), "cannot record an event");
  check(cudaEventSynchronize(end.get()), "the GPU has failed");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cannot read the GPU's clock");
  return std::max(double(milliseconds) / 1e3 / calls, 1e-9);
}

double Gpu::seconds_once(const std::function<void()>& work) { return round(1, work); }

Timing Gpu::time(const std::function<void()>& work) {
  work();
  const int calls = tiny_ ? 1 : int(std::clamp(0.2 / round(2, work), 3.0, 2000.0));
  if (!tiny_) round(calls, work);
  std::vector<double> rounds;
  for (int i = 0; i < (tiny_ ? 1 : 5); ++i) rounds.push_back(round(calls, work));
  return timing_of(rounds);
}

Timing timing_of(std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  const double median = rounds[rounds.size() / 2];
  return {median, (rounds.back() - rounds.front()) / median};
}

static std::pair<std::int64_t, std::int64_t> free_and_all() {
  std::size_t free_now = 0, all = 0;
  check(cudaMemGetInfo(&free_now, &all), "cannot ask the GPU for its free memory");
  return {std::int64_t(free_now), std::int64_t(all)};
}

std::int64_t taken_bytes() {
  const auto [free_now, all] = free_and_all();
  return all - free_now;
}
std::int64_t free_bytes() { return free_and_all().first; }

}  // namespace zt::bench
