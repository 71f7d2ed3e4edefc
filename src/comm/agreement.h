// One outcome for all ranks.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"

namespace zt::comm {

// An error that every rank throws at the same time: one of them may report it, and all can end in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// The error that `work` ends with, or none. Other exceptions become errors of the machine (memory, files) or bugs.
std::optional<Error> attempt(const std::function<void()>& work) noexcept;

// Collective: does nothing when no rank has failed, else throws the first failing rank's error on every rank, with
// its number in front unless all failed alike.
void agree(Communicator& communicator, const std::optional<Error>& mine);

// Collective: `work`, which may take ranks very different times, then agree. Whoever waits calls `idle`, as in
// Communicator::rendezvous.
void work_and_agree(Communicator& communicator, const std::function<void()>& work,
                    const std::function<void()>& idle);

// Collective. Where `fingerprint` (of equal length everywhere) is not the same on all ranks, all throw the same Error:
// "ranks 0 and 2 WHAT (fingerprints A and B)", with the first rank that differs from rank 0. A difference that is found
// here would else train on, silently wrong, or end in a collective that waits for another.
void require_same(Communicator& communicator, const std::string& fingerprint, Blame blame,
                  const std::string& what, const std::string& hint);

}  // namespace zt::comm
