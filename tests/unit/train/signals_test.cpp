#include "train/signals.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "device/arena.h"
#include "kernels/cpu_kernels.h"

namespace zt::train {
namespace {

// Whether a child process that does `work` ends with status 0. Of this process's threads the child has only the one that
// forks, and OpenMP's loops on that one may wait for others: they belong on a thread of their own.
template <typename Work>
bool survives(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("signals: each stop signal asks for an end, by its name, and is forgotten with its request") {
  for (const auto& [number, name] :
       {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}}) {
    {
      const StopRequests stop;
      CHECK(stop.pending() == nullptr);
      ::kill(::getpid(), number);
      for (int i = 0; i < 2000 && stop.pending() == nullptr; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      REQUIRE(stop.pending() != nullptr);
      CHECK(std::string(stop.pending()) == name);
    }
    const StopRequests next;
    CHECK(next.pending() == nullptr);
  }
}

// Products use the stack pointer for a buffer of their own; a handler on such a thread would write into the heap.
TEST_CASE("signals: none is ever handled by a thread that computes") {
  CHECK(survives([] {
    const StopRequests stop;
    std::atomic<bool> done{false};
    std::thread sender([&done] {
      while (!done) {
        ::kill(::getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    std::thread([] {
      const auto kernels = kernels::make_cpu_kernels();
      constexpr std::int64_t n = 512;
      const device::Arena memory(3 * n * n * 4, "matrices");
      const auto matrix = [&](std::int64_t i) { return View(memory.at(i * n * n * 4), Dtype::f32, n, n); };
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
      while (std::chrono::steady_clock::now() < end) {
        kernels->linear({matrix(0), matrix(1), {}, matrix(2)});
        std::string churn(5000, 'x');  // what a handler has written into the heap shows here
      }
    }).join();
    done = true;
    sender.join();
  }));
}

}  // namespace
}  // namespace zt::train
