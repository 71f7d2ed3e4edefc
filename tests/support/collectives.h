// Collectives and their right values, for every transport: plain loops over the contributions of all ranks,
// which each rank can compute for itself because they are pure functions of a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace zt::test {

// Elements [first, first + n) of a rank's buffer, which `seed` names: of mixed sign and size, so that the order of
// addition shows in fp32.
std::vector<float> contribution(std::uint64_t seed, int rank, std::int64_t first, std::int64_t n);

// The sum of all ranks' contributions: fp32, in rank order, each rounded through the wire first, then rounded
// to dtype and widened again.
std::vector<float> rank_order_sum(std::uint64_t seed, int ranks, std::int64_t first, std::int64_t n,
                                  Dtype dtype, Dtype wire);

// Each performs one collective on fresh buffers and returns what is wrong, or "" when every bit is right.
std::string wrong_in_all_gather(comm::Communicator& comm, std::int64_t slice_bytes, std::uint64_t seed);
std::string wrong_in_reduce_scatter(comm::Communicator& comm, Dtype dtype, Dtype wire,
                                    std::int64_t slice_elements, std::uint64_t seed);
std::string wrong_in_all_reduce(comm::Communicator& comm, Dtype dtype, Dtype wire,
                                std::int64_t slice_elements, std::uint64_t seed);
std::string wrong_in_broadcast(comm::Communicator& comm, std::int64_t bytes, int root, std::uint64_t seed);
std::string wrong_in_exchange(comm::Communicator& comm, std::int64_t bytes, std::uint64_t seed);
// One of the five, of random size, as a pure function of the seed.
std::string wrong_in_random_collective(comm::Communicator& comm, std::uint64_t seed);

}  // namespace zt::test
