#include "comm/start_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_end.h"
#include "comm/ledger.h"

namespace zt::comm {
namespace {

constexpr double kLook = 0.5;

// What the launcher has started on this node, this process among them, by their numbers.
std::vector<Process> started_by(const Process& launcher) {
  std::vector<Process> all;
  std::ifstream in(cat("/proc/", launcher.id, "/task/", launcher.id, "/children"));
  for (int id = 0; in >> id;) all.push_back(process_of(id));
  std::ranges::sort(all, {}, &Process::id);
  return all;
}

}  // namespace

StartGuard::StartGuard(double silence_seconds, double timeout_seconds)
    : silence_seconds_(silence_seconds), timeout_seconds_(timeout_seconds) {
  // Signals that ask the run to stop are for other threads.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StartGuard::~StartGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool StartGuard::over_within(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
}

void StartGuard::run() {
  const std::int64_t began = steady_now();
  std::int64_t all_ran = began;  // when no process was stopped
  const Process launcher = find_launcher();
  for (std::int64_t last = began; !over_within(kLook); last = steady_now()) {
    // Where this process did not run either, the whole job was held.
    if (seconds_since(last) > 2 * kLook) all_ran = steady_now();
    if (seconds_since(began) > timeout_seconds_)
      end(cat("the ranks have not come together for ", human_seconds(timeout_seconds_),
              ": MPI waits for one that has not started"),
          "is every node up, and does the program start there? comm.timeout_seconds sets how long ranks "
          "wait");
    const std::vector<Process> all = started_by(launcher);
    const auto stopped = std::ranges::find(all, 'T', [](const Process& p) { return state_of(p); });
    if (stopped == all.end() || silence_seconds_ <= 0) {
      all_ran = steady_now();
      continue;
    }
    const auto first = std::ranges::find_if(all, [](const Process& p) { return state_of(p) != 'T'; });
    // The first one that runs speaks; the others only where it doesn't end the job.
    const double wait = silence_seconds_ + (first != all.end() && first->id == ::getpid() ? 0 : 5);
    if (seconds_since(all_ran) > wait)
      end(cat("process ", stopped->id,
              ", a rank of this job on this node, is stopped (SIGSTOP) while the ranks "
              "start"),
          "start the job again; comm.silence_seconds sets how long a rank may be stopped");
  }
}

void StartGuard::end(const std::string& what, const std::string& hint) {
  if (!job_is_ending()) log::error(cat(what, "\n  hint: ", hint));
  end_job(exit_status(Blame::peer));
}

}  // namespace zt::comm
