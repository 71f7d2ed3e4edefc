// One rank of a job in which rank 1 goes wrong in a chosen way. Usage: mpi_fault_rank HOW windows|messages SECONDS
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/error.h"
#include "comm/mpi.h"

using namespace zt;

namespace {

void go_wrong(const std::string& how) {
  if (how == "late") pause();
  if (how == "killed") raise(SIGKILL);
  if (how == "exits") _exit(3);
  if (how == "throws") throw Error(Blame::data, "row 7 is broken");
}

void run(const std::string& how, const std::string& transport, double seconds) {
  comm::MpiSession session;
  const auto comm = transport == "windows" ? session.world(seconds) : session.world_over_messages(seconds);
  std::array<float, 64> whole{};
  for (int i = 0; i < 10; ++i) {
    if (i == 5 && comm->rank() == 1) go_wrong(how);
    const int elements = how == "mismatch" && comm->rank() == 1 ? 2 : 4;
    comm->reduce_scatter(whole.data(), Dtype::f32, Dtype::f32, elements);
  }
  std::cerr << "rank " << comm->rank() << " saw no fault\n";
}

}  // namespace

int main(int, char** argv) {
  try {
    run(argv[1], argv[2], std::atof(argv[3]));
  } catch (const Error& e) {
    std::cerr << "error (" << name(e.blame()) << "): " << e.what() << std::endl;
    return exit_status(e.blame());
  }
  return 0;
}
