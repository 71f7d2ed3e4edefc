// One outcome for all ranks.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "comm/communicator.h"

namespace zt::checkpoint {

// An error that every rank throws at the same time: one of them may report it, and all can end in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// The error that `work` ends with, or none. Other exceptions become errors of the machine (memory, files) or bugs.
std::optional<Error> attempt(const std::function<void()>& work) noexcept;

// Collective: does nothing when no rank has failed, else throws the first failing rank's error on every rank, with
// its number in front unless all failed alike.
void agree(comm::Communicator& communicator, const std::optional<Error>& mine);

}  // namespace zt::checkpoint
