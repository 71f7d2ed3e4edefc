// The ranks of one MPI communicator, as both MPI transports use them.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace zt::comm {

// Error(peer) with MPI's own words when the call did not succeed.
void check_mpi(int status, const char* call);

// True once a collective has failed in this process, or while an exception ends it: then nothing that all
// ranks do together (freeing, finalizing) may be tried any more, for the others may never come.
class Troubles {
 public:
  Troubles();
  static void note();
  bool any() const;

 private:
  int exceptions_at_start_;
};

// Owns an MPI communicator, whose errors return. `in_job` are its ranks' numbers among all.
class Ranks {
 public:
  Ranks(MPI_Comm raw, std::vector<int> in_job, double timeout_seconds);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // All ranks of the job.
  static std::unique_ptr<Ranks> world(double timeout_seconds);
  // The ranks of one colour; `colors` are those of all ranks. Collective.
  std::unique_ptr<Ranks> split(const std::vector<int>& colors) const;

  MPI_Comm raw() const { return raw_; }
  int rank() const { return rank_; }
  int size() const { return int(in_job_.size()); }
  int in_job(int rank) const { return in_job_[std::size_t(rank)]; }
  double timeout_seconds() const { return timeout_seconds_; }
  // The job's; null for a part of its ranks.
  std::shared_ptr<Ledgers> ledgers() const;
  bool on_one_node() const;
  // See Communicator::rendezvous.
  void rendezvous(const std::function<void()>& idle) const;
  bool troubled() const { return troubles_.any(); }

 private:
  MPI_Comm raw_;
  int rank_ = 0;
  std::vector<int> in_job_;
  double timeout_seconds_;
  Troubles troubles_;
};

// The colours of all ranks, by this communicator's own messages and within its time limit.
std::vector<int> exchange_colors(Communicator& comm, int color);

std::unique_ptr<Communicator> over_messages(std::unique_ptr<Ranks> ranks);
// Nothing when some rank could not get its window. All ranks must be on one node.
std::unique_ptr<Communicator> over_windows(std::unique_ptr<Ranks>& ranks);

}  // namespace zt::comm
