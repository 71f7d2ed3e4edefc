// Room for windows that ranks of a node share.
#pragma once

#include <cstdint>

namespace zt::comm {

// Whether Open MPI's backing folder for shared windows has so many bytes free: OMPI_MCA_osc_sm_backing_directory, else
// /dev/shm. True where that cannot be told. Asked before windows are allocated, because without space Open MPI 4.1
// fails on one rank and leaves the others waiting for it for ever.
bool has_shared_memory(std::int64_t bytes);

}  // namespace zt::comm
