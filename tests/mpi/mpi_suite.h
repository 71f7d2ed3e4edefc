// What tests under mpirun share. The program starts MPI once; every rank runs the same cases in the same order.
// A case may not leave early on one rank alone: decide with `everywhere`, and check with `check_everywhere`.
#pragma once

#include <string>

#include "comm/mpi.h"

namespace zt::test {

comm::MpiSession& session();
// All ranks, over shared windows (solo for one rank) and over messages.
comm::Communicator& windows();
comm::Communicator& messages();

// True when it is true on every rank. Collective.
bool everywhere(bool mine);
// Fails the case on every rank when any of them found something wrong; "" is right. Collective.
void check_everywhere(const std::string& wrong);

}  // namespace zt::test
