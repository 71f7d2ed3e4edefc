// The program of the `mpi` suite: starts MPI, runs doctest on every rank, and reduces the verdicts. Rank 0 prints;
// another rank's report is printed only when it has failures.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "mpi/mpi_suite.h"

namespace zt::test {
namespace {

constexpr double kPatient = 120;

struct Suite {
  comm::MpiSession session;
  std::unique_ptr<comm::Communicator> windows = session.world(kPatient),
                                      messages = session.world_over_messages(kPatient);
};
Suite* suite = nullptr;

int run(int argc, char** argv) {
  Suite here;
  suite = &here;
  doctest::Context context(argc, argv);
  std::ostringstream report;
  if (here.windows->rank() != 0) context.setCout(&report);
  const bool passed = context.run() == 0;
  if (!passed) std::cerr << report.str();
  return everywhere(passed) ? 0 : 1;
}

}  // namespace

comm::MpiSession& session() { return suite->session; }
comm::Communicator& windows() { return *suite->windows; }
comm::Communicator& messages() { return *suite->messages; }

bool everywhere(bool mine) {
  const char verdict = mine ? 1 : 0;
  std::vector<char> all(std::size_t(messages().size()), 0);
  messages().exchange(std::span<const char>(&verdict, 1), std::span<char>(all));
  return std::all_of(all.begin(), all.end(), [](char v) { return v == 1; });
}

void check_everywhere(const std::string& wrong) {
  const bool all_right = everywhere(wrong.empty());
  CHECK_MESSAGE(wrong.empty(), wrong);
  CHECK_MESSAGE((all_right || !wrong.empty()), "another rank found something wrong");
}

}  // namespace zt::test

int main(int argc, char** argv) {
  try {
    return zt::test::run(argc, argv);
  } catch (const zt::Error& e) {
    std::cerr << e.what() << "\n";
    return exit_status(e.blame());
  }
}
