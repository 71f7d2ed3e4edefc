// One GPU: memory, copies, and a stream for each lane.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"

namespace zt::cuda {

// Claims nothing but a context and its streams. The thread that makes it has entered its first lane.
class CudaDevice final : public device::Device, public device::Queues {
 public:
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override { return name_; }
  device::Arena claim(std::int64_t bytes, const std::string& purpose) override;
  std::int64_t available_bytes() const override;
  bool is_host() const override { return false; }
  device::Queues* queues() override { return this; }

  void copy(void* to, const void* from, std::int64_t bytes) override;
  void fill(void* at, std::uint8_t byte, std::int64_t bytes) override;
  void add(Dtype dtype, void* sum, const float* more, std::int64_t count) override;
  void to_device(void* to, const void* host, std::int64_t bytes) override;
  void to_host(void* host, const void* from, std::int64_t bytes) override;

  void begin(int ops) override;
  void enter(int lane) override;
  void wait_for(int op) override;
  void start(int op) override;
  void mark(int op) override;
  void finish() override;
  device::Interval time_of(int op) override;

  // Is called while the host waits for the GPU, and throws where what it waits for will never come.
  void watch(std::function<void()> look) { look_ = std::move(look); }
  // Waits for what the calling thread has enqueued.
  void synchronize();

 private:
  struct Handles;
  int ordinal_;
  std::string name_;
  std::unique_ptr<Handles> handles_;
  std::function<void()> look_;
};

}  // namespace zt::cuda
