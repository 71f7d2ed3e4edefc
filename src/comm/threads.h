// Virtual ranks: threads of one process that read each other's buffers directly.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace zt::comm {

// Runs `body` on `ranks` threads, each with its communicator, and returns when all have ended. When one
// throws, the others' collectives fail, and the first error (by time) is thrown on; its rank is put in front
// of the message ("rank 2: ...") when there is more than one. `timeout_seconds` as in Communicator.
void run_threads(int ranks, double timeout_seconds, const std::function<void(Communicator&)>& body);

}  // namespace zt::comm
