// What the launcher says about ranks, by environment variables only.
#pragma once

#include <string>

namespace zt::comm {

// Who started this process as one of `ranks`, and the variable that says so. `ranks` is 0 when no launcher
// did, -1 when one did without telling how many.
struct Launcher {
  std::string variable;
  int ranks = 0;
};
Launcher launcher();

// Throws Error(usage) when MPI counts other ranks than the launcher: then the launcher and MPI do not speak
// with each other, and every process would believe it is alone.
void require_same_ranks(const Launcher& launcher, int mpi_ranks);

}  // namespace zt::comm
