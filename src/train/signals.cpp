#include "train/signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "comm/job_end.h"

namespace zt::train {
namespace {

struct StopSignal {
  int number;
  const char* name;
};
// SIGUSR1 is what batch systems can send some time before the limit, and what launchers pass on to every rank.
constexpr StopSignal kStopSignals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}};

// Written by the handler, read by the threads that run: lock-free, so that a handler may touch it.
std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Only async-signal-safe calls here.
void on_signal(int number) {
  const int before = errno, earlier = requested.exchange(number);
  if (earlier != 0 && number == SIGINT) {
    comm::last_words(130);
    ::_exit(130);
  }
  if (earlier == 0 && number == SIGINT) {
    constexpr char text[] = "\nstopping after this step; Ctrl-C again ends at once\n";
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  errno = before;
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  for (const StopSignal& signal : kStopSignals) ::sigaction(signal.number, &action, nullptr);
}

void mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const StopSignal& signal : kStopSignals) sigaddset(&signals, signal.number);
  ::pthread_sigmask(how, &signals, nullptr);
}

// While it multiplies, oneDNN's dnnl_sgemm uses the stack pointer for a buffer on the heap (jit_avx*_gemm_f32.cpp:
// `mov(rsp, ARG_WS)`), and a handler that ran on such a thread would overwrite what lies below. So threads that
// compute block these signals, as all do that are started from here on, and one thread that only waits takes them.
std::thread taker;
std::atomic<bool> ending;

void take_signals() {
  mask(SIG_UNBLOCK);
  ending.wait(false);
}

}  // namespace

StopRequests::StopRequests() {
  requested = 0;
  install(on_signal);
  mask(SIG_BLOCK);
  ending = false;
  taker = std::thread(take_signals);
}

StopRequests::~StopRequests() {
  ending = true;
  ending.notify_all();
  taker.join();
  install(SIG_DFL);
  mask(SIG_UNBLOCK);
}

const char* StopRequests::pending() const {
  const auto* const signal = std::ranges::find(kStopSignals, requested.load(), &StopSignal::number);
  return signal == std::end(kStopSignals) ? nullptr : signal->name;
}

}  // namespace zt::train
