// Ranks as processes under mpirun or srun.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace zt::comm {

// Whether a launcher started this process as one of several ranks (or of one): Open MPI's, PMIx's or PMI's
// variables are set. Does not touch MPI.
bool launched();

// What each rank will hold for transport when a launcher starts so many on one node: Communicator::buffer_bytes.
std::int64_t buffer_bytes_on_one_node(int ranks);
// The same for ranks on several nodes: at most so much.
inline constexpr std::int64_t kMessageBufferBytes = 16 << 20;

class Troubles;
class Pulse;
struct PulseOptions;

// MPI, started for the life of this object; MPI_THREAD_SERIALIZED. At most one in a process, and it outlives all
// communicators. Throws Error(usage) when the launcher counts other ranks than MPI does.
class MpiSession {
 public:
  MpiSession();
  // Finalizes, unless a collective has failed or an exception is on its way: finalizing waits for all ranks.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // All ranks. Uses shared-memory windows when all ranks are on one node, else pairwise messages; solo() when
  // there is one rank.
  std::unique_ptr<Communicator> world(double timeout_seconds);
  // The same over messages only: for tests and for comparing.
  std::unique_ptr<Communicator> world_over_messages(double timeout_seconds);
  // How many ranks share this node.
  int ranks_on_this_node() const;
  // Collective: from now on the ranks give each other signs of life (pulse.h), and a library that calls exit() ends the
  // job with an error.
  void watch(Communicator& world, const PulseOptions& options);
  // Ends the whole job with this exit status (job_end.h). Does not return.
  [[noreturn]] static void abort(int status);

 private:
  std::unique_ptr<Troubles> troubles_;
  std::unique_ptr<Pulse> pulse_;
};

}  // namespace zt::comm
