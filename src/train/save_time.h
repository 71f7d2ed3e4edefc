// What a checkpoint will take, before the first one was made.
#pragma once

#include <cstdint>
#include <filesystem>

#include "comm/communicator.h"

namespace zt::train {

// Seconds until `bytes` of this rank, and those of the others, are on the disk: all ranks write a file in `folder` at
// once, as they will then. The largest of them, the same on every rank. Collective. Error(machine) when the folder can't be
// written.
double try_save_seconds(const std::filesystem::path& folder, std::int64_t bytes, comm::Communicator& comm);

}  // namespace zt::train
