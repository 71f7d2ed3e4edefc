#include "train/launch_report.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/text.h"

namespace zt::train {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::vector<int> cores(int first, int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

RankPlace place(const std::string& host, const std::vector<int>& mine, int threads = 1, int of_node = 4) {
  return {host, mine, cores(0, of_node), threads, 1024 * kMiB, 1024 * kMiB};
}

std::vector<std::string> texts(const std::vector<LaunchLine>& lines, bool warning) {
  std::vector<std::string> out;
  for (const LaunchLine& line : lines)
    if (line.warning == warning) out.push_back(line.text);
  return out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "launch report: ranks with cores of their own are told in one line a node, and nothing is warned of") {
  const auto lines = launch_report(
      {place("anna", cores(0, 2), 2), place("anna", cores(2, 2), 2), place("bert", cores(0, 4), 4)},
      "mpi (messages)", kMiB);
  CHECK(texts(lines, true).empty());
  CHECK(texts(lines, false) ==
        std::vector<std::string>{"node anna: 2 ranks: rank 0 with 2 threads on cores 0-1; rank 1 with 2 "
                                 "threads on cores 2-3; /dev/shm "
                                 "1.00 GiB",
                                 "node bert: 1 rank with 4 threads on cores 0-3; /dev/shm 1.00 GiB"});
  const auto unbound = launch_report({place("anna", cores(0, 4), 2), place("anna", cores(0, 4), 2)},
                                     "mpi (shared windows)", kMiB);
  CHECK(texts(unbound, true).empty());
  CHECK(texts(unbound, false).front() ==
        "node anna: 2 ranks, each with 2 threads on cores 0-3; /dev/shm 1.00 GiB");
}

TEST_CASE(
    "launch report: each way to be slow is warned of once, with its numbers and the cure, and only it") {
  struct Case {
    std::string what;
    std::vector<RankPlace> places;
    std::string transport, says, cure;
  };
  const std::string windows = "mpi (shared windows)";
  std::vector<RankPlace> small = {place("anna", {0}, 1, 2), place("anna", {1}, 1, 2)};
  for (RankPlace& p : small) p.shared_free = kMiB;
  const Case cases[] = {
      {"more threads than cores",
       {place("anna", {0}, 4, 2), place("anna", {1}, 4, 2)},
       windows,
       "rank 0 on anna computes with 4 threads, but may use 1 core only (core 0)",
       "OMP_NUM_THREADS=1"},
      {"bound to the same core",
       {place("anna", {0, 1}, 1), place("anna", {2}, 1), place("anna", {2}, 1), place("anna", {3}, 1)},
       windows,
       "2 ranks on anna (1-2) share core 2",
       "--bind-to none"},
      {"more ranks than cores",
       {place("anna", {0, 1}, 1, 2), place("anna", {0, 1}, 1, 2), place("anna", {0, 1}, 1, 2)},
       windows,
       "3 ranks on anna (0-2) share cores 0-1",
       "start at most 2 there"},
      {"cores that idle",
       {place("anna", {0}, 1, 16), place("anna", {1}, 1, 16)},
       windows,
       "use 2 of 16 cores (0-1)",
       "srun --cpus-per-task"},
      {"messages on one node", small, "mpi (messages)",
       "want 2.00 MiB of /dev/shm, which has 1.00 MiB free of 1.00 GiB", "--shm-size"},
      {"messages in spite of room",
       {place("anna", {0}, 1, 2), place("anna", {1}, 1, 2)},
       "mpi (messages)",
       "they share no memory, though it has room for them",
       "--ipc=host"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const auto warnings = texts(launch_report(c.places, c.transport, kMiB), true);
    REQUIRE(warnings.size() == 1);
    CAPTURE(warnings.front());
    CHECK(contains(warnings.front(), c.says));
    CHECK(contains(warnings.front(), c.cure));
  }
  auto none = small;
  for (RankPlace& p : none) p.shared = p.shared_free = -1;
  CHECK(contains(texts(launch_report(none, "mpi (messages)", kMiB), true).front(),
                 "/dev/shm, which is absent"));
}

TEST_CASE("launch report: of a thousand nodes eight are shown, and eight warned of") {
  std::vector<RankPlace> many;
  for (int n = 0; n < 1000; ++n)
    for (int r = 0; r < 2; ++r) many.push_back(place(cat("n", n), {0}));
  const auto lines = launch_report(many, "mpi (messages)", kMiB);
  CHECK(texts(lines, false).size() == 9);
  CHECK(texts(lines, false).back() == "and 992 more nodes");
  CHECK(texts(lines, true).size() == 8);
}

TEST_CASE("launch report: a lone process reports nothing, and a rank's own place is this machine's") {
  const auto alone = comm::solo();
  CHECK(launch_report(*alone).empty());
  const auto places = places_of_ranks(*alone);
  REQUIRE(places.size() == 1);
  CHECK(!places[0].host.empty());
  CHECK(!places[0].cores.empty());
  CHECK(places[0].of_group.size() >= places[0].cores.size());
  CHECK(places[0].threads >= 1);
}

}  // namespace zt::train
