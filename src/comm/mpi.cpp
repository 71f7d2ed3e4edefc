#include "comm/mpi.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "comm/job_end.h"
#include "comm/launcher.h"
#include "comm/pulse.h"
#include "comm/ranks.h"

namespace zt::comm {

// What exit() would end in the middle of its work.
static std::atomic<bool> watched{false};

// The log may be gone already.
static void on_exit_call() {
  if (!watched) return;
  constexpr char text[] = "error: a library called exit() while the ranks were at work\n";
  if (!job_is_ending()) (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  end_job(exit_status(Blame::bug));
}

MpiSession::MpiSession() : troubles_(std::make_unique<Troubles>()) {
  int before = 0;
  MPI_Initialized(&before);
  if (before != 0) throw Error(Blame::bug, "MPI is started twice in one process");
  require_joined(launcher());
  // Inside a node Open MPI lets one process read another's memory, by a system call for each message. Copying
  // through shared memory is about twice as fast (bench/comm), and needs no such permission. Users can override.
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_SERIALIZED)
    throw Error(Blame::machine,
                cat("this MPI offers thread level ", provided, ", but ", MPI_THREAD_SERIALIZED,
                    " (MPI_THREAD_SERIALIZED) is needed"),
                "use an MPI that was built with threads");
  int ranks = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  require_same_ranks(launcher(), ranks);
}

MpiSession::~MpiSession() {
  watched = false;
  // MPI_Finalize waits for all ranks. Without it the launcher sees a rank end early, and ends the others.
  if (!troubles_->any())
    MPI_Finalize();
  else if (pulse_ != nullptr)
    last_words(exit_status(Blame::peer));
}

void MpiSession::watch(Communicator& world, const PulseOptions& options) {
  this_process_is(world.rank(), &(*world.ledgers())[std::size_t(world.rank())]);
  pulse_ = std::make_unique<Pulse>(world, options);
  watched = true;
  static const bool registered = std::atexit(on_exit_call) == 0;
  (void)registered;
}

std::unique_ptr<Communicator> MpiSession::world(double timeout_seconds) {
  std::unique_ptr<Ranks> ranks = Ranks::world(timeout_seconds);
  if (ranks->size() == 1) return solo();
  if (ranks->on_one_node()) {
    if (auto windows = over_windows(ranks)) return windows;
  }
  return over_messages(std::move(ranks));
}

std::unique_ptr<Communicator> MpiSession::world_over_messages(double timeout_seconds) {
  std::unique_ptr<Ranks> ranks = Ranks::world(timeout_seconds);
  if (ranks->size() == 1) return solo();
  return over_messages(std::move(ranks));
}

int MpiSession::ranks_on_this_node() const {
  MPI_Comm node = MPI_COMM_NULL;
  int ranks = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &ranks);
  MPI_Comm_free(&node);
  return ranks;
}

void MpiSession::abort(int status) { end_job(status); }

}  // namespace zt::comm
