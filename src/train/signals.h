// A polite end: SIGINT, SIGTERM and SIGUSR1 ask the run to stop after the step at hand; a second SIGINT ends it at
// once. To be made before the first thread that computes: those must not run a handler.
#pragma once

namespace zt::train {

class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;
  // The signal's name once one has come, else null.
  const char* pending() const;
};

}  // namespace zt::train
