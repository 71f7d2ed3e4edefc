#include "support/collectives.h"

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "base/text.h"

namespace zt::test {
namespace {

using comm::Communicator;
using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::uint64_t seed, int rank, std::int64_t size) {
  const RandomStream stream{seed, Purpose::test, std::uint32_t(rank), 1};
  Bytes bytes(std::size_t(size), std::byte{0});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) {
      const std::uint64_t word = stream.u64(i / 8);
      std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
  }
  return bytes;
}

// As stored in a buffer of the format.
Bytes stored(const std::vector<float>& values, Dtype dtype) {
  Bytes bytes(values.size() * std::size_t(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == Dtype::f32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const bf16 x(values[i]);
      std::memcpy(bytes.data() + 2 * i, &x, 2);
    }
  }
  return bytes;
}

float rounded(float x, Dtype dtype) { return dtype == Dtype::bf16 ? float(bf16(x)) : x; }

std::string difference(const std::string& what, const Communicator& comm, const std::byte* got,
                       const Bytes& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] != want[i])
      return cat(what, " over ", comm.transport(), ", rank ", comm.rank(), " of ", comm.size(), ": byte ", i,
                 " of ", want.size(), " is ", int(got[i]), ", should be ", int(want[i]));
  }
  return "";
}

}  // namespace

std::vector<float> contribution(std::uint64_t seed, int rank, std::int64_t first, std::int64_t n) {
  const RandomStream stream{seed, Purpose::test, std::uint32_t(rank), 2};
  std::vector<float> values(std::size_t(n), 0.f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t word = stream.u64(std::uint64_t(first) + i);
    const float size = std::ldexp(1.f, int(word >> 40 & 15) - 8);
    values[i] = (uniform(std::uint32_t(word)) - 0.5f) * size;
  }
  return values;
}

std::vector<float> rank_order_sum(std::uint64_t seed, int ranks, std::int64_t first, std::int64_t n,
                                  Dtype dtype, Dtype wire) {
  std::vector<float> sum(std::size_t(n), 0.f);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> values = contribution(seed, r, first, n);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float x = rounded(rounded(values[i], dtype), wire);
      sum[i] = r == 0 ? x : sum[i] + x;
    }
  }
  for (float& x : sum) x = rounded(x, dtype);
  return sum;
}

std::string wrong_in_all_gather(Communicator& comm, std::int64_t slice_bytes, std::uint64_t seed) {
  Bytes whole(std::size_t(slice_bytes * comm.size()), std::byte{0xee}), want;
  for (int r = 0; r < comm.size(); ++r) {
    const Bytes slice = random_bytes(seed, r, slice_bytes);
    if (r == comm.rank()) std::copy(slice.begin(), slice.end(), whole.begin() + r * slice_bytes);
    want.insert(want.end(), slice.begin(), slice.end());
  }
  comm.all_gather(whole.data(), slice_bytes);
  return difference(cat("all_gather of ", slice_bytes, " bytes a slice"), comm, whole.data(), want);
}

std::string wrong_in_reduce_scatter(Communicator& comm, Dtype dtype, Dtype wire, std::int64_t slice_elements,
                                    std::uint64_t seed) {
  const std::int64_t all = slice_elements * comm.size(), first = slice_elements * comm.rank();
  Bytes whole = stored(contribution(seed, comm.rank(), 0, all), dtype);
  const Bytes want = stored(rank_order_sum(seed, comm.size(), first, slice_elements, dtype, wire), dtype);
  comm.reduce_scatter(whole.data(), dtype, wire, slice_elements);
  return difference(cat("reduce_scatter of ", slice_elements, " ", name(dtype), " a slice as ", name(wire)),
                    comm, whole.data() + first * size_of(dtype), want);
}

std::string wrong_in_all_reduce(Communicator& comm, Dtype dtype, Dtype wire, std::int64_t slice_elements,
                                std::uint64_t seed) {
  const std::int64_t all = slice_elements * comm.size();
  Bytes whole = stored(contribution(seed, comm.rank(), 0, all), dtype);
  const Bytes want = stored(rank_order_sum(seed, comm.size(), 0, all, dtype, wire), dtype);
  comm.all_reduce(whole.data(), dtype, wire, slice_elements);
  return difference(cat("all_reduce of ", slice_elements, " ", name(dtype), " a slice as ", name(wire)), comm,
                    whole.data(), want);
}

std::string wrong_in_broadcast(Communicator& comm, std::int64_t bytes, int root, std::uint64_t seed) {
  const Bytes want = random_bytes(seed, root, bytes);
  Bytes data = comm.rank() == root ? want : Bytes(want.size(), std::byte{0xee});
  comm.broadcast(data.data(), bytes, root);
  return difference(cat("broadcast of ", bytes, " bytes from ", root), comm, data.data(), want);
}

std::string wrong_in_exchange(Communicator& comm, std::int64_t bytes, std::uint64_t seed) {
  Bytes all(std::size_t(bytes * comm.size()), std::byte{0xee}), want;
  for (int r = 0; r < comm.size(); ++r) {
    const Bytes message = random_bytes(seed, r, bytes);
    want.insert(want.end(), message.begin(), message.end());
  }
  const Bytes mine = random_bytes(seed, comm.rank(), bytes);
  comm.exchange(std::span<const std::byte>(mine), std::span<std::byte>(all));
  return difference(cat("exchange of ", bytes, " bytes"), comm, all.data(), want);
}

std::string wrong_in_random_collective(Communicator& comm, std::uint64_t seed) {
  const RandomStream stream{seed, Purpose::test, 0, 3};
  const std::uint64_t kind = stream.u64(0), size = stream.u64(1);
  const auto n = std::int64_t(size % (kind % 7 == 0 ? 100000 : 2000));
  const Dtype dtype = kind >> 8 & 1 ? Dtype::f32 : Dtype::bf16;
  const Dtype wire = kind >> 9 & 1 ? dtype : Dtype::bf16;
  switch (kind >> 16 & 7) {
    case 0: return wrong_in_broadcast(comm, n, int((size >> 32) % std::uint64_t(comm.size())), seed);
    case 1: return wrong_in_exchange(comm, n, seed);
    case 2: comm.barrier(); return "";
    case 3: return wrong_in_all_reduce(comm, dtype, wire, n, seed);
    case 4:
    case 5: return wrong_in_reduce_scatter(comm, dtype, wire, n, seed);
    default: return wrong_in_all_gather(comm, n, seed);
  }
}

}  // namespace zt::test
