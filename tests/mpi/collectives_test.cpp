#include "support/collectives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/text.h"
#include "mpi/mpi_suite.h"
#include "support/slow_link.h"

using namespace zt;
using namespace zt::test;
using comm::Communicator;

namespace {

struct Formats {
  Dtype dtype, wire;
};
constexpr std::array<Formats, 3> kFormats = {
    {{Dtype::f32, Dtype::f32}, {Dtype::f32, Dtype::bf16}, {Dtype::bf16, Dtype::bf16}}};

std::array<Communicator*, 2> transports() { return {&windows(), &messages()}; }

}  // namespace

TEST_CASE("mpi: windows carry ranks of one node, messages carry any") {
  const bool alone = windows().size() == 1;
  CHECK(windows().transport() == (alone ? "solo" : "mpi (shared windows)"));
  CHECK(messages().transport() == (alone ? "solo" : "mpi (messages)"));
  CHECK(comm::launched());
}

TEST_CASE("mpi: sums have the bits of fp32 addition in rank order over both transports") {
  // The last sizes need several pieces: one rank gives another at most 512 KiB of sums at a time.
  for (std::int64_t elements : {0, 1, 7, 2049, 131072, 300007}) {
    for (const Formats& f : kFormats) {
      for (Communicator* comm : transports()) {
        check_everywhere(
            wrong_in_reduce_scatter(*comm, f.dtype, f.wire, elements, 11) +
            wrong_in_all_reduce(*comm, f.dtype, f.wire, std::min<std::int64_t>(elements, 4999), 12));
      }
    }
  }
}

TEST_CASE("mpi: gathers, broadcasts and small messages bring every byte to every rank") {
  for (std::int64_t bytes : {0, 1, 3, 8, 1000, 65537, 3000001}) {
    for (Communicator* comm : transports()) {
      std::string wrong = wrong_in_all_gather(*comm, bytes, 21) + wrong_in_exchange(*comm, bytes / 7, 22);
      for (int root = 0; root < comm->size(); ++root) wrong += wrong_in_broadcast(*comm, bytes, root, 23);
      check_everywhere(wrong);
    }
  }
}

TEST_CASE("mpi: traffic is what a ring would send, to the byte, over both transports") {
  for (Communicator* comm : transports()) {
    const std::int64_t others = comm->size() - 1;
    std::vector<float> whole(std::size_t(comm->size()) * 100, 1.f);
    const comm::Traffic before = comm->traffic();
    comm->all_gather(whole.data(), 400);
    comm->reduce_scatter(whole.data(), Dtype::f32, Dtype::bf16, 100);
    comm->all_reduce(whole.data(), Dtype::f32, Dtype::bf16, 100);
    const comm::Traffic want = {
        .all_gather = 400 * others, .reduce_scatter = 200 * others, .all_reduce = 600 * others};
    CHECK(comm->traffic() - before == want);
  }
}

TEST_CASE("mpi: staging memory stays within its bound and is the same after large transfers") {
  for (Communicator* comm : transports()) {
    const std::int64_t before = comm->buffer_bytes();
    CHECK(before <= (16 << 20) + 4096);
    CHECK((before > 0) == (comm->size() > 1));
    check_everywhere(wrong_in_reduce_scatter(*comm, Dtype::f32, Dtype::bf16, 600000, 31));
    CHECK(comm->buffer_bytes() == before);
  }
}

TEST_CASE("mpi: a hundred random collectives in a row are right under random delays") {
  for (Communicator* comm : transports()) {
    RandomDelays delayed(*comm, 41, 300e-6);
    std::string wrong;
    for (std::uint64_t i = 0; i < 100; ++i) wrong += wrong_in_random_collective(delayed, 1000 + i);
    check_everywhere(wrong);
  }
}

TEST_CASE("mpi: a split makes groups by colour in rank order, and again from a group") {
  for (Communicator* comm : transports()) {
    const auto parity = comm->split(comm->rank() % 2 - 1);
    CHECK(parity->size() == (comm->size() + 1 - comm->rank() % 2) / 2);
    CHECK(parity->rank() == comm->rank() / 2);
    const auto halves = parity->split(2 * parity->rank() < parity->size() ? 7 : 3);
    std::string wrong;
    for (std::uint64_t i = 0; i < 10; ++i) {
      wrong += wrong_in_random_collective(*parity, 50 + i) + wrong_in_random_collective(*halves, 70 + i) +
               wrong_in_random_collective(*comm, 90 + i);
    }
    check_everywhere(wrong);
  }
}

TEST_CASE("mpi: a rendezvous waits for the last rank and says so meanwhile, and collectives go on after it") {
  for (Communicator* comm : transports()) {
    const bool late = comm->rank() == comm->size() - 1 && comm->size() > 1;
    int idle = 0;
    const auto start = std::chrono::steady_clock::now();
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    comm->rendezvous([&] { ++idle; });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool ill = comm->size() > 1 && (seconds < 0.15 || (!late && idle == 0));
    check_everywhere(ill ? cat("a rendezvous of ", seconds, " s, idle ", idle, " times") : "");
  }
}

TEST_CASE("mpi: communicators come and go without using up MPI") {
  for (int i = 0; i < 20; ++i) {
    const auto all = session().world(60);
    check_everywhere(wrong_in_all_gather(*all, 1000, std::uint64_t(i)));
  }
}

// Needs 2.4 GiB a rank. Counts above 2^31 bytes: both transports cut them into pieces.
TEST_CASE("mpi: slices whose sum is above 2^31 bytes arrive whole" *
          doctest::skip(std::getenv("ZEROTRAIN_HEAVY") == nullptr)) {
  const std::int64_t slice = (std::int64_t{1} << 30) + (std::int64_t{1} << 28) + 5;
  for (Communicator* comm : transports()) {
    std::vector<std::byte> whole(std::size_t(slice * comm->size()));
    const auto expected = [](int rank, std::int64_t i) { return std::byte((i >> 12) * 31 + i + rank); };
    std::byte* mine = whole.data() + comm->rank() * slice;
    for (std::int64_t i = 0; i < slice; ++i) mine[i] = expected(comm->rank(), i);
    comm->all_gather(whole.data(), slice);
    std::int64_t wrong = 0;
    for (int r = 0; r < comm->size(); ++r)
      for (std::int64_t i = 0; i < slice; ++i) wrong += whole[std::size_t(r * slice + i)] != expected(r, i);
    check_everywhere(wrong == 0 ? "" : std::to_string(wrong) + " bytes over " + comm->transport());
  }
}
