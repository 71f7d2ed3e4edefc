#include "stops.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace zt::emulator {
namespace {

// `status` as waitpid gives it.
Ended run_apart(const std::function<void()>& body) {
  int ends[2];
  REQUIRE_EQ(pipe(ends), 0);
  std::fflush(stdout);  // or the child would say it again
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);  // the test framework's handler would report it as its own
    dup2(ends[1], STDERR_FILENO);
    body();
    std::exit(0);
  }
  close(ends[1]);
  Ended ended{0, ""};
  std::array<char, 512> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
    ended.said.append(buffer.data(), std::size_t(n));
  close(ends[0]);
  REQUIRE_EQ(waitpid(child, &ended.status, 0), child);
  return ended;
}

}  // namespace

std::string stopped_with(const std::function<void()>& body) {
  const Ended ended = run_apart(body);
  return WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGABRT ? ended.said : "";
}

Ended ended_with(const std::function<void()>& body) {
  Ended ended = run_apart(body);
  REQUIRE(WIFEXITED(ended.status));
  ended.status = WEXITSTATUS(ended.status);
  return ended;
}

}  // namespace zt::emulator
