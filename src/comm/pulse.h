// Signs of life. Once a second every rank sends rank 0 a small datagram that says what it does, and rank 0 answers with
// what the ranks that are furthest behind do. A rank that is stopped, or whose node or network is gone, leaves no other
// trace: those who wait for it cannot tell it from a slow one, and neither can the launcher.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace zt::comm {

struct PulseOptions {
  double silence_seconds =
      30;  // a rank that was heard before and is silent for so long ends the job; 0: never
  double timeout_seconds = 600;  // the limit of collectives: half of it is said once
};

// Lives on a thread of its own beside the ranks, and does not use MPI until it ends the job (end_job, status 6). It
// says once which ranks are silent, where they run, and what they did last: rank 0 of the others, the others of rank 0,
// lower ranks first. A rank that was never heard, because a firewall is between, is not judged (but on this node, where it
// can be looked at); that is said once. A
// rank that a debugger holds isn't either, and the time for which this process itself did not run does not count.
class Pulse {
 public:
  // Collective; nothing for a single rank. The communicator is of all ranks, and only used for exchanging addresses.
  Pulse(Communicator& world, const PulseOptions& options);
  // Takes leave of the others.
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  class Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace zt::comm
