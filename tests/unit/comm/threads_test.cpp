#include "comm/threads.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "support/collectives.h"
#include "support/slow_link.h"

using namespace zt;
using namespace zt::test;
using comm::Communicator;
using comm::run_threads;

namespace {

constexpr double kPatient = 120;

struct Formats {
  Dtype dtype, wire;
};
constexpr std::array<Formats, 3> kFormats = {
    {{Dtype::f32, Dtype::f32}, {Dtype::f32, Dtype::bf16}, {Dtype::bf16, Dtype::bf16}}};

// Runs the body on each rank and collects what it found wrong.
void expect_right(int ranks, const std::function<std::string(Communicator&)>& body) {
  std::mutex mutex;
  std::string wrong;
  run_threads(ranks, kPatient, [&](Communicator& comm) {
    const std::string mine = body(comm);
    const std::lock_guard lock(mutex);
    if (!mine.empty()) wrong += mine + "\n";
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
}

std::string problem_of(const std::function<void()>& work, Blame blame) {
  try {
    work();
  } catch (const Error& e) {
    CHECK(e.blame() == blame);
    return e.problem();
  }
  return "no error";
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE(
    "threads: sums have the bits of fp32 addition in rank order, for every rank count, size and format") {
  for (int ranks : {1, 2, 3, 4, 8}) {
    for (std::int64_t elements : {0, 1, 7, 64, 2047, 2048, 2049, 10007}) {
      for (const Formats& f : kFormats) {
        expect_right(ranks, [&](Communicator& comm) {
          return wrong_in_reduce_scatter(comm, f.dtype, f.wire, elements, 11) +
                 wrong_in_all_reduce(comm, f.dtype, f.wire, elements, 12);
        });
      }
    }
  }
}

TEST_CASE("threads: gathers, broadcasts and small messages bring every byte to every rank") {
  for (int ranks : {1, 2, 3, 4, 8}) {
    for (std::int64_t bytes : {0, 1, 3, 8, 1000, 65537}) {
      expect_right(ranks, [&](Communicator& comm) {
        std::string wrong = wrong_in_all_gather(comm, bytes, 21) + wrong_in_exchange(comm, bytes, 22);
        for (int root = 0; root < ranks; ++root) wrong += wrong_in_broadcast(comm, bytes, root, 23);
        return wrong;
      });
    }
  }
}

TEST_CASE("threads: typed messages arrive in rank order") {
  run_threads(4, kPatient, [](Communicator& comm) {
    const std::array<double, 2> mine = {double(comm.rank()), 0.5};
    std::array<double, 8> all{};
    comm.exchange(std::span<const double>(mine), std::span<double>(all));
    for (int r = 0; r < 4; ++r) CHECK(all[std::size_t(2 * r)] == r);
  });
}

TEST_CASE("threads: traffic is what a ring would send, to the byte") {
  for (int ranks : {1, 2, 3, 8}) {
    run_threads(ranks, kPatient, [&](Communicator& comm) {
      std::vector<float> whole(std::size_t(ranks) * 100, 1.f);
      const std::int64_t others = ranks - 1;
      comm.all_gather(whole.data(), 400);
      CHECK(comm.traffic() == comm::Traffic{.all_gather = 400 * others});
      comm.reduce_scatter(whole.data(), Dtype::f32, Dtype::bf16, 100);
      CHECK(comm.traffic() == comm::Traffic{.all_gather = 400 * others, .reduce_scatter = 200 * others});
      const comm::Traffic before = comm.traffic();
      comm.all_reduce(whole.data(), Dtype::f32, Dtype::bf16, 100);  // bf16 to the owner, fp32 back
      CHECK(comm.traffic() - before == comm::Traffic{.all_reduce = 600 * others});
      comm.broadcast(whole.data(), 40, ranks - 1);
      const double mine = 1;
      std::vector<double> all(std::size_t(ranks), 0.);
      comm.exchange(std::span(&mine, 1), std::span(all));
      comm.barrier();
      const std::int64_t sent = comm.rank() == ranks - 1 ? 40 * others : 0;
      CHECK((comm.traffic() - before).control == sent + 8 * others);
    });
  }
}

TEST_CASE("threads: the first error comes out with its rank, and the others stop at once") {
  for (int ranks : {2, 3, 8}) {
    const double seconds = seconds_of([&] {
      const std::string problem = problem_of(
          [&] {
            run_threads(ranks, kPatient, [](Communicator& comm) {
              comm.barrier();
              if (comm.rank() == 1) throw Error(Blame::data, "row 7 is broken");
              comm.barrier();
            });
          },
          Blame::data);
      CHECK(problem == "rank 1: row 7 is broken");
    });
    CHECK(seconds < kPatient / 4);
  }
}

TEST_CASE("threads: an error of one group stops ranks that wait in another") {
  const std::string problem = problem_of(
      [] {
        run_threads(4, kPatient, [](Communicator& comm) {
          const auto half = comm.split(comm.rank() / 2);
          if (comm.rank() == 3) throw Error(Blame::numbers, "loss is nan");
          half->barrier();
          comm.barrier();
        });
      },
      Blame::numbers);
  CHECK(problem == "rank 3: loss is nan");
}

TEST_CASE(
    "threads: exceptions of other kinds become errors with the rank, and one rank's error bears no prefix") {
  CHECK(problem_of(
            [] {
              run_threads(3, kPatient, [](Communicator& comm) {
                if (comm.rank() == 2) throw std::out_of_range("x");
                comm.barrier();
              });
            },
            Blame::bug) == "rank 2: x");
  CHECK(problem_of([] { run_threads(1, kPatient, [](Communicator&) { throw Error(Blame::data, "bad"); }); },
                   Blame::data) == "bad");
}

TEST_CASE("threads: a rank that does not come is named with the operation and the seconds") {
  std::atomic<bool> gave_up = false;
  const std::string problem = problem_of(
      [&] {
        run_threads(3, 0.05, [&](Communicator& comm) {
          std::array<float, 3> whole = {1, 2, 3};
          if (comm.rank() == 2) {
            while (!gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          try {
            comm.reduce_scatter(whole.data(), Dtype::f32, Dtype::f32, 1);
          } catch (const Error& e) {
            CHECK(e.blame() == Blame::peer);
            CHECK_FALSE(e.hint().empty());
            gave_up = true;
            throw;
          }
        });
      },
      Blame::peer);
  // Ranks 0 and 1 wait at the same time; either may be the first to lose patience.
  const bool as_expected = problem == "rank 0 waited 0.05 s in reduce_scatter for rank 2" ||
                           problem == "rank 1 waited 0.05 s in reduce_scatter for rank 2";
  CHECK_MESSAGE(as_expected, problem);
}

TEST_CASE("threads: a rank that has left its work is missed at once") {
  const double seconds = seconds_of([] {
    const std::string problem = problem_of(
        [] {
          run_threads(2, kPatient, [](Communicator& comm) {
            if (comm.rank() == 0) comm.barrier();
          });
        },
        Blame::peer);
    CHECK(problem == "rank 0 waits in barrier for rank 1, which ended before");
  });
  CHECK(seconds < kPatient / 4);
}

TEST_CASE("threads: ranks in different collectives are told so instead of mixing data") {
  const std::string problem = problem_of(
      [] {
        run_threads(2, kPatient, [](Communicator& comm) {
          std::array<float, 4> whole = {1, 2, 3, 4};
          if (comm.rank() == 0) comm.all_gather(whole.data(), 8);
          if (comm.rank() == 1) comm.all_gather(whole.data(), 4);
        });
      },
      Blame::bug);
  const bool as_expected =
      problem == "rank 0 is in all_gather over 8 bytes while rank 1 is in all_gather over 4 bytes" ||
      problem == "rank 1 is in all_gather over 4 bytes while rank 0 is in all_gather over 8 bytes";
  CHECK_MESSAGE(as_expected, problem);
}

TEST_CASE("threads: a split makes groups by colour in rank order, and again from a group") {
  run_threads(6, kPatient, [](Communicator& comm) {
    const auto thirds = comm.split(comm.rank() % 3 - 1);  // 0 3, 1 4, 2 5
    CHECK(thirds->size() == 2);
    CHECK(thirds->rank() == comm.rank() / 3);
    const auto alone = thirds->split(thirds->rank());
    CHECK(alone->size() == 1);
    const auto all = comm.split(0);
    CHECK(all->rank() == comm.rank());
    for (int i = 0; i < 5; ++i) {
      const std::string wrong = wrong_in_reduce_scatter(*thirds, Dtype::f32, Dtype::f32, 100, 31) +
                                wrong_in_all_gather(*all, 100, 32) + wrong_in_exchange(*alone, 8, 33);
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
  });
}

TEST_CASE("threads: a hundred random collectives in a row are right under random delays") {
  for (int ranks : {2, 4}) {
    expect_right(ranks, [](Communicator& comm) {
      RandomDelays delayed(comm, 41, 300e-6);
      std::string wrong;
      for (std::uint64_t i = 0; i < 100; ++i) wrong += wrong_in_random_collective(delayed, 1000 + i);
      return wrong;
    });
  }
}

TEST_CASE("threads: a rendezvous waits beyond the time limit, and the next collective has its own") {
  std::atomic<int> idle = 0;
  comm::run_threads(3, 0.3, [&](Communicator& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    comm.rendezvous([&] { ++idle; });
    comm.barrier();
    std::vector<int> all(3);
    const int mine = comm.rank();
    comm.exchange<int>({&mine, 1}, all);
    CHECK(all == std::vector<int>{0, 1, 2});
  });
  CHECK(idle > 10);
}

TEST_CASE("threads: a rank that fails before a rendezvous ends the waiting of the others") {
  const auto run = [] {
    comm::run_threads(2, 0.3, [](Communicator& comm) {
      if (comm.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        throw Error(Blame::data, "row 7 is bad");
      }
      comm.rendezvous([] {});
    });
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("row 7 is bad"), Error);
}

TEST_CASE("threads: no ranks is refused") {
  CHECK(problem_of([] { run_threads(0, kPatient, [](Communicator&) {}); }, Blame::bug) ==
        "run_threads: 0 ranks");
}
