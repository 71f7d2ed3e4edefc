// A polite end: SIGINT and SIGTERM ask the run to stop after the step at hand; a second SIGINT ends it at
// once.
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
