// Training under a launcher, on virtual ranks, or alone: who the ranks are, and one status for all of them.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "app/commands.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/job_end.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "comm/peers.h"
#include "comm/pulse.h"
#include "comm/start_guard.h"
#include "comm/threads.h"
#include "device/cores.h"
#include "recipe/recipe.h"
#include "train/signals.h"
#include "train/time_limit.h"
#include "train/trainer.h"

namespace zt::app {
namespace {

// When the program was loaded: time limits count from there, with all that comes before the first step.
const double kStarted = train::now_seconds();

// What all ranks agree on is said once and ends them in order.
int train_on(comm::Communicator& comm, const TrainArgs& args, const train::StopRequests& stop,
             int on_this_node) {
  try {
    recipe::Loaded loaded;
    comm::agree(
        comm, comm::attempt([&] { loaded = recipe::load(args.recipe.path, args.recipe.sets, comm.size()); }));
    comm::require_same(comm, digest_of(recipe::resolved_text({loaded.recipe, {}}) + args.resume),
                       Blame::usage, "were started with different recipes or options",
                       "start every rank with the same recipe, --set and --resume");
    return train::train(
        loaded, {args.dry_run, train::parse_resume(args.resume), ZEROTRAIN_VERSION, on_this_node, kStarted},
        stop, comm);
  } catch (const comm::AgreedError& e) {
    if (comm.rank() == 0) log::error(e.what());
    return exit_status(e.blame());
  }
}

// The time limits are in the recipe, which is read only when there are ranks to agree about it. Whatever is wrong with
// it is said there.
recipe::Comm limits_of(const TrainArgs& args) {
  try {
    return recipe::load(args.recipe.path, args.recipe.sets, 1).recipe.comm;
  } catch (const Error&) {
    return {};
  }
}

// Ranks with a smaller number speak first: when all fail at once, they end the job before the others say the same. Who
// fails because another one has failed before leaves the word to that one.
[[noreturn]] void fail_job(int rank, const std::string& what, int status) {
  using namespace std::chrono_literals;
  std::this_thread::sleep_for(std::min(rank, 10) * 100ms + (comm::another_failed_before() ? 5s : 0s));
  if (!comm::job_is_ending()) log::error(cat("rank ", rank, ": ", what));
  comm::MpiSession::abort(status);
}

int train_under_launcher(const TrainArgs& args) {
  // Ranks may take long to come together, and a batch system may signal some of them meanwhile.
  const train::StopRequests stop;
  const recipe::Comm limits = limits_of(args);
  std::optional<comm::StartGuard> start(std::in_place, limits.silence_seconds, limits.timeout_seconds);
  comm::MpiSession session;
  const auto world = session.world(limits.timeout_seconds);
  if (args.ranks > 0 && args.ranks != world->size())
    throw Error(Blame::usage,
                cat("--ranks ", args.ranks, " was given, but the launcher started ", world->size()),
                "leave --ranks out under mpirun or srun");
  session.watch(*world, {limits.silence_seconds, limits.timeout_seconds});
  start.reset();
  const int on_this_node = session.ranks_on_this_node();
  device::compute_with(device::threads_of_rank(on_this_node));
  try {
    return train_on(*world, args, stop, on_this_node);
  } catch (const Error& e) {
    fail_job(world->rank(), e.what(), exit_status(e.blame()));
  } catch (const std::bad_alloc&) {
    fail_job(world->rank(), "memory ran out", exit_status(Blame::machine));
  } catch (const std::exception& e) {
    fail_job(world->rank(), cat("this is a bug in zerotrain: ", e.what()), exit_status(Blame::bug));
  }
}

int train_on_threads(const TrainArgs& args) {
  const train::StopRequests stop;
  std::mutex mutex;
  int status = 0;
  comm::run_threads(args.ranks, limits_of(args).timeout_seconds, [&](comm::Communicator& comm) {
    device::compute_with(std::max(1, device::cores() / comm.size()));
    const int mine = train_on(comm, args, stop, comm.size());
    const std::lock_guard lock(mutex);
    status = mine;
  });
  return status;
}

}  // namespace

int train(const TrainArgs& args) {
  if (comm::launched()) return train_under_launcher(args);
  if (args.ranks > 1) return train_on_threads(args);
  if (args.ranks == 0) comm::require_lone_task();
  const train::StopRequests stop;
  const auto alone = comm::solo();
  return train_on(*alone, args, stop, 1);
}

}  // namespace zt::app
