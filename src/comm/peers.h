// What a rank says when another does not come, and how it waits without burning a core.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/ledger.h"

namespace zt::comm {

// "rank 3", "ranks 0, 2 and 5"; more than eight are counted.
std::string rank_list(const std::vector<int>& ranks);

// A rank has waited its time out. `missing` and `rank` are numbers in the whole job.
class LateError : public Error {
 public:
  LateError(int rank, std::vector<int> missing, const char* operation, double seconds);
  const std::vector<int>& missing() const { return missing_; }

 private:
  std::vector<int> missing_;
};
// A rank stops because another one has failed before it.
Error failed_error(int rank, const std::vector<int>& failed, const char* operation);
// Whether this process has made such an error: then what ends it is not the job's first cause.
bool another_failed_before();

// Where the calling thread is, as it last told its ledger.
Place current_place();

// Two ranks are in different collectives: which, over how many bytes, and of which place in the program.
struct Call {
  const char* operation;
  std::int64_t bytes;
  Place place = current_place();
};
Error mismatch_error(int rank, const Call& mine, int other, const Call& theirs);

// Longer limits count as this one: years would overflow a clock's nanoseconds.
constexpr double kLongestSeconds = 1e8;

// From any thread: whoever waits in this process, now or later, is told that its own rank has failed.
void give_up_waiting() noexcept;

// Waiting for something that another process or the network brings: first looks again at once, then gives the
// processor away, then sleeps, because ranks and their compute threads may share cores.
class Patience {
 public:
  explicit Patience(double timeout_seconds);
  // Waits a little. False when the time limit has passed since the last progress. Throws Error(peer) after
  // give_up_waiting().
  bool pause();
  // Something has moved: be quick again.
  void progress();

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds limit_;
  Clock::time_point since_;
  int looks_ = 0;
};

}  // namespace zt::comm
