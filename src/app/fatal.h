// Ends that no one catches: a broken pointer, abort() in a library, an exception on its way out of a thread.
#pragma once

namespace zt::app {

// From now on such an end first says which rank it is, what that did, and what is wrong, and tells the other ranks.
// Then it is what it would have been, so that the system can keep a core. To be called before other threads and MPI.
void say_fatal_ends();

}  // namespace zt::app
