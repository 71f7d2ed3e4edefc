// Jobs in which one rank goes wrong: the others end soon, with an error that names it. Runs mpirun itself.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/text.h"

using namespace zt;

namespace {

struct Ended {
  int status = -1;
  double seconds = 0;
  std::string output;
};

std::string from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  REQUIRE_MESSAGE(value != nullptr, variable);
  return value;
}

// `limit` ends a job that hangs; then the status is 124.
Ended job(int ranks, const std::string& options, const std::string& arguments, int limit = 60) {
  const std::string command =
      cat("timeout -k 5 ", limit, " ", from_environment("ZEROTRAIN_MPIEXEC"), " -n ", ranks, " ", options,
          " ", from_environment("ZEROTRAIN_FAULT_RANK"), " ", arguments, " 2>&1");
  const auto start = std::chrono::steady_clock::now();
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    ended.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ended;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("faults: a rank that does not come is named by the others, with the operation and the seconds") {
  for (const char* transport : {"windows", "messages"}) {
    CAPTURE(transport);
    const Ended ended = job(3, "", cat("late ", transport, " 1"));
    CAPTURE(ended.output);
    CHECK(ended.status == 6);
    CHECK(contains(ended.output, "waited 1 s in reduce_scatter for rank"));
    CHECK(contains(ended.output, "error (a peer or the network)"));
    CHECK(ended.seconds < 30);
  }
}

TEST_CASE("faults: a rank that is killed or leaves ends the job within seconds") {
  for (const char* transport : {"windows", "messages"}) {
    for (const char* how : {"killed", "exits"}) {
      CAPTURE(transport);
      CAPTURE(how);
      const Ended ended = job(3, "", cat(how, " ", transport, " 600"));
      CAPTURE(ended.output);
      CHECK(ended.status != 0);
      CHECK(ended.status != 124);
      CHECK(ended.seconds < 30);
      CHECK_FALSE(contains(ended.output, "saw no fault"));
    }
  }
}

TEST_CASE("faults: an error of one rank is the job's status, and nothing waits for its time limit") {
  for (const char* transport : {"windows", "messages"}) {
    CAPTURE(transport);
    const Ended ended = job(3, "", cat("throws ", transport, " 600"));
    CAPTURE(ended.output);
    const bool status = ended.status == 3 || ended.status == 6;  // rank 1's, or that of one whom it stopped
    CHECK(status);
    CHECK(contains(ended.output, "row 7 is broken"));
    CHECK(ended.seconds < 30);
  }
}

TEST_CASE("faults: ranks in different collectives are told so, or miss each other in time") {
  const Ended windows = job(2, "", "mismatch windows 600");
  CAPTURE(windows.output);
  CHECK(windows.status == 70);
  const bool told =
      contains(windows.output,
               "is in reduce_scatter over 16 bytes while rank 1 is in reduce_scatter over 8 bytes") ||
      contains(windows.output,
               "is in reduce_scatter over 8 bytes while rank 0 is in reduce_scatter over 16 bytes");
  CHECK(told);
}
