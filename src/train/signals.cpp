#include "train/signals.h"

#include <unistd.h>

#include <csignal>

namespace zt::train {
namespace {

volatile std::sig_atomic_t requested = 0;

// Only async-signal-safe calls here.
void on_signal(int number) {
  if (requested != 0 && number == SIGINT) ::_exit(130);
  if (requested == 0 && number == SIGINT) {
    constexpr char text[] = "\nstopping after this step; Ctrl-C again ends at once\n";
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  requested = number;
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopRequests::StopRequests() {
  requested = 0;
  install(on_signal);
}

StopRequests::~StopRequests() { install(SIG_DFL); }

const char* StopRequests::pending() const {
  if (requested == 0) return nullptr;
  return requested == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace zt::train
