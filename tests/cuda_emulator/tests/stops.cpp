#include "stops.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

namespace zt::emulator {

std::string stopped_with(const std::function<void()>& body) {
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
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 512> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), std::size_t(n));
  close(ends[0]);
  int status = 0;
  REQUIRE_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? said : "";
}

}  // namespace zt::emulator
