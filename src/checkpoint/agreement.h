// One outcome for all ranks.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "comm/communicator.h"

namespace zt::checkpoint {

// The error that `work` ends with, or none. Other exceptions become errors of the machine (memory, files) or bugs.
std::optional<Error> attempt(const std::function<void()>& work) noexcept;

// Collective: does nothing when no rank has failed, else throws the first failing rank's error on every rank, with
// its number in front.
void agree(comm::Communicator& communicator, const std::optional<Error>& mine);

}  // namespace zt::checkpoint
