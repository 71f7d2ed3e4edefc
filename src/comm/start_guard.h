// Watches the time between a process' start and its rank's first sign of life (pulse.h), in which MPI starts and waits for
// all ranks without a limit.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace zt::comm {

class StartGuard {
 public:
  // Ends the job with status 6 and says why: when another process of the launcher on this node is stopped for
  // `silence_seconds` (0: it isn't looked at), or when this object still lives after `timeout_seconds`.
  StartGuard(double silence_seconds, double timeout_seconds);
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  void run();
  bool over_within(double seconds);
  [[noreturn]] void end(const std::string& what, const std::string& hint);

  const double silence_seconds_, timeout_seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace zt::comm
