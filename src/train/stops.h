// What ends a run early or asks it for a checkpoint, looked at between steps and agreed among all ranks: signals, the
// time limit, the file save-now.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "train/signals.h"
#include "train/time_limit.h"

namespace zt::train {

// The signal that a rank got, as people read it: "SIGTERM (to rank 2)", or "SIGTERM" where no rank has a process of its
// own.
std::string named_signal(const char* signal, int rank, const comm::Communicator& comm);

// The first signal that any rank got; "" for none. Collective.
std::string signal_to_any(const StopRequests& signals, comm::Communicator& comm);

class Stops {
 public:
  // `save_now` is the file by which people ask for a checkpoint. Rank 0's clock and file count.
  Stops(const StopRequests& signals, std::filesystem::path save_now, comm::Communicator& comm)
      : signals_(signals), save_now_(std::move(save_now)), comm_(comm) {}

  void limit(TimeLimit limit) { limit_.emplace(std::move(limit)); }
  // Rank 0's; none where nothing limits the run.
  std::optional<TimeLimit>& time_limit() { return limit_; }

  // The same on every rank.
  struct Agreed {
    std::string stop;  // why the run ends here: "SIGTERM", "SIGTERM (to rank 2)", ...; "" where it goes on
    bool out_of_time = false;  // it is the time limit
    bool save = false;         // a checkpoint is asked for
    bool written = false;      // every rank has written its file
  };
  // `written`: this rank has written its file of the save under way. Collective.
  Agreed look(bool written);
  // The checkpoint that was asked for is there. On rank 0 only.
  void saved() const;

 private:
  std::string time_text() const;
  bool save_is_asked_for();
  const StopRequests& signals_;
  std::filesystem::path save_now_;
  comm::Communicator& comm_;
  std::optional<TimeLimit> limit_;
  std::chrono::steady_clock::time_point looked_{};  // when for the file
};

}  // namespace zt::train
