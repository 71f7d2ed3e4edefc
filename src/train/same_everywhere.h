// What all ranks must have been given alike. A difference that is found here would else train on, silently wrong, or
// end in a collective that waits for another.
#pragma once

#include <string>

#include "base/error.h"
#include "comm/communicator.h"

namespace zt::train {

// Collective. Where `text` is not the same on all ranks, all throw the same Error: "ranks 0 and 2 WHAT (fingerprints A
// and B)", with the first rank that differs from rank 0.
void require_same_everywhere(comm::Communicator& comm, const std::string& text, Blame blame,
                             const std::string& what, const std::string& hint);

}  // namespace zt::train
