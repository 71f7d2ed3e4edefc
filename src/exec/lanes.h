// Plays the lanes of a list: one thread a lane, each first-in first-out, an op after its waits; or everything on
// one thread in list order; or, on a device with queues, enqueued in list order by one thread, waits between queues.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "device/device.h"
#include "exec/trace.h"
#include "schedule/schedule.h"

namespace zt::exec {

struct LaneOptions {
  bool threads = false;
  // For finding faults. Called first for every op, on its lane; and whether freed bytes become NaN at once, so that
  // nobody can use them unnoticed.
  std::function<void(const schedule::Op&)> before = {};
  bool poison = false;
};

class Lanes {
 public:
  using Play = std::function<void(const schedule::Op& op, int index)>;

  // `give_up` is called from the failing lane when an op throws, to free the other lane from waiting for ranks
  // that will never come.
  explicit Lanes(LaneOptions options, std::function<void(std::exception_ptr)> give_up = {},
                 device::Queues* queues = nullptr);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Returns when every op has been played; throws on the first error (by time). Returns the seconds for which
  // computation stood still for communication; on queues by the device's clock, as all times in `trace`, which it fills
  // where there is one.
  double run(const schedule::Schedule& list, const Play& play, StepTrace* trace = nullptr);

 private:
  void serve_comm_lane();
  void play_lane(schedule::Lane lane);
  void wait_for(const schedule::Op& op, int index);
  void play_op(const schedule::Op& op, int index);
  void note_wait(const schedule::Op& op, int index, int blocker, double seconds);
  void fail(const std::exception_ptr& error);
  double run_inline(const schedule::Schedule& list);
  double run_threads(const schedule::Schedule& list);
  double run_queues(const schedule::Schedule& list);
  double stood_still_on_queues(const schedule::Schedule& list);

  LaneOptions options_;
  std::function<void(std::exception_ptr)> give_up_;
  device::Queues* queues_;
  std::thread comm_thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, ending_ = false;  // the comm lane's, under the mutex

  // Of the list being played.
  const schedule::Schedule* list_ = nullptr;
  const Play* play_ = nullptr;
  StepTrace* trace_ = nullptr;
  std::chrono::steady_clock::time_point start_;
  std::vector<int> place_;     // of each op, in its lane
  std::vector<double> ended_;  // of each op on queues, seconds
  std::array<std::atomic<int>, schedule::kLanes> finished_{};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // the first one, under the mutex
  double stood_still_ = 0;    // the compute lane's
};

}  // namespace zt::exec
