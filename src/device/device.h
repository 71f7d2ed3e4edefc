// What a step needs of the device it runs on besides kernels and collectives: memory, copies, and lanes that run beside
// the host. The host's own processor is one such device; GPUs are others, in cuda/device.
#pragma once

#include <cstdint>
#include <string>

#include "device/arena.h"
#include "tensor/dtype.h"

namespace zt::device {

// Seconds since the list began.
struct Interval {
  double start = 0, end = 0;
};

// Lanes as queues beside the host: an op is enqueued on a lane, and done some time later. Ops of one lane are done in
// the order in which they were enqueued; between lanes only what `wait_for` names is ordered.
class Queues {
 public:
  virtual ~Queues() = default;
  // A list of so many ops begins: marks count from 0.
  virtual void begin(int ops) = 0;
  // What is enqueued from now on by this thread goes to this lane.
  virtual void enter(int lane) = 0;
  // What is enqueued next on the entered lane begins after op `op`, which has been marked.
  virtual void wait_for(int op) = 0;
  // Op `op` begins with what is enqueued next on the entered lane, which has its waits already.
  virtual void start(int op) = 0;
  // Op `op` is everything that was enqueued on the entered lane until now.
  virtual void mark(int op) = 0;
  // Returns when everything is done, on lane 0. Error(machine) or Error(peer) where something has failed.
  virtual void finish() = 0;
  // When an op that was started and marked ran, by the device's clock. After finish().
  virtual Interval time_of(int op) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // "cpu", "NVIDIA H200".
  virtual std::string name() const = 0;
  // Zeroed memory of the device. Error(machine) with the numbers when it is short.
  virtual Arena claim(std::int64_t bytes, const std::string& purpose) = 0;
  // How much can be claimed now; negative: unknown. Ranks of a node share the host's.
  virtual std::int64_t available_bytes() const = 0;
  // The host reads and writes the device's memory by itself.
  virtual bool is_host() const = 0;
  // Lanes beside the host; null where a call returns when its work is done.
  virtual Queues* queues() = 0;

  // Inside the device, on the entered lane.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill(void* at, std::uint8_t byte, std::int64_t bytes) = 0;
  // sum += more, added in fp32 and rounded once to `dtype` (f32 or bf16).
  virtual void add(Dtype dtype, void* sum, const float* more, std::int64_t count) = 0;

  // Between the host and the device, after what was enqueued on the entered lane; return when it is done.
  virtual void to_device(void* to, const void* host, std::int64_t bytes) = 0;
  virtual void to_host(void* host, const void* from, std::int64_t bytes) = 0;
};

// The processor that runs the program.
Device& host();

}  // namespace zt::device
