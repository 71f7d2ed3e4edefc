#include "plan/simulator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace zt::plan {
namespace {

using schedule::Lane;
using schedule::Op;
using schedule::OpKind;
using schedule::Schedule;

// Ops by lane and waits alone: the simulator looks at nothing else.
Schedule list_of(const std::vector<std::pair<Lane, std::vector<int>>>& ops) {
  Schedule s;
  for (const auto& [lane, waits] : ops)
    s.ops.push_back({.kind = OpKind::forward, .lane = lane, .waits = waits});
  return s;
}
constexpr Lane C = Lane::compute, M = Lane::comm;

TEST_CASE("one lane takes the sum of its ops") {
  const Simulation s = simulate(list_of({{C, {}}, {C, {}}, {C, {}}}), {1, 2, 3}, {});
  CHECK(s.seconds == doctest::Approx(6));
  CHECK(s.spans[2].start == doctest::Approx(3));
  CHECK(s.exposed == 0);
  CHECK(s.busy[0] == doctest::Approx(6));
  CHECK(s.critical == std::vector<int>{0, 1, 2});
}

TEST_CASE("a computation waits for its gather, and says for which and how long") {
  // gather 3 s, then forward 2 s; the second gather (3 s) runs beside it, so the second forward waits 1 s more.
  const Simulation s = simulate(list_of({{M, {}}, {C, {0}}, {M, {}}, {C, {2}}}), {3, 2, 3, 2}, {});
  CHECK(s.spans[1].start == doctest::Approx(3));
  CHECK(s.spans[1].waited == doctest::Approx(3));
  CHECK(s.spans[1].blocker == 0);
  CHECK(s.spans[3].start == doctest::Approx(6));
  CHECK(s.spans[3].waited == doctest::Approx(1));
  CHECK(s.spans[3].blocker == 2);
  CHECK(s.seconds == doctest::Approx(8));
  CHECK(s.exposed == doctest::Approx(4));
  CHECK(s.critical == std::vector<int>{0, 2, 3});
}

TEST_CASE("what is still moving when all is computed counts as exposed") {
  const Simulation s = simulate(list_of({{C, {}}, {M, {0}}}), {2, 5}, {});
  CHECK(s.seconds == doctest::Approx(7));
  CHECK(s.exposed == doctest::Approx(5));
}

TEST_CASE("lanes that share a device slow each other down while both work") {
  // 4 s of computing beside 2 s of moving, both at half speed while both go: moving ends at 4 s, computing did 2 s by then.
  const Simulation s = simulate(list_of({{C, {}}, {M, {}}}), {4, 2}, {0.5, 0.5, false});
  CHECK(s.spans[1].end == doctest::Approx(4));
  CHECK(s.spans[0].end == doctest::Approx(6));
  // Different speeds: moving at 0.8 ends at 2.5 s; computing at 0.5 has 2.75 s left.
  const Simulation t = simulate(list_of({{C, {}}, {M, {}}}), {4, 2}, {0.5, 0.8, false});
  CHECK(t.spans[1].end == doctest::Approx(2.5));
  CHECK(t.spans[0].end == doctest::Approx(5.25));
}

TEST_CASE("steps that overlap hide a gather of the next step behind this one's end") {
  // gather (2 s) -> forward (3 s); the next step's gather needs only the forward before last.
  const Schedule list = list_of({{M, {-1}}, {C, {0}}});
  CHECK(simulate(list, {2, 3}, {}).seconds == doctest::Approx(5));
  CHECK(simulate(list, {2, 3}, {1, 1, true}).seconds ==
        doctest::Approx(5));  // waits for the forward: nothing to hide
  const Schedule free = list_of({{M, {}}, {C, {0}}});
  const Simulation s = simulate(free, {2, 3}, {1, 1, true});
  CHECK(s.seconds == doctest::Approx(3));
  CHECK(s.exposed == doctest::Approx(0));
  CHECK(simulate(free, {2, 3}, {}).seconds == doctest::Approx(5));
}

TEST_CASE("a comm lane that nobody holds up may be steps ahead") {
  const Simulation s = simulate(list_of({{M, {}}, {C, {0}}}), {0.1, 3}, {1, 1, true});
  CHECK(s.seconds == doctest::Approx(3));
}

TEST_CASE("ops without work take no time, and empty lists none") {
  CHECK(simulate({}, {}, {}).seconds == 0);
  CHECK(simulate(list_of({{C, {}}, {M, {0}}, {C, {1}}}), {0, 0, 0}, {}).seconds == 0);
}

TEST_CASE("waits in a circle are a bug, not an endless loop") {
  CHECK_THROWS_WITH_AS(simulate(list_of({{C, {1}}, {M, {0}}}), {1, 1}, {}), doctest::Contains("circle"),
                       Error);
  CHECK_THROWS_AS(simulate(list_of({{C, {}}}), {1, 2}, {}), Error);
}

// An independent judge for lanes that don't slow each other: an op starts when the op before it in its lane and all it
// waits for have ended.
TEST_CASE("random lists start every op when its lane and its waits allow") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int count = 2 + int(random() % 40);
    std::vector<std::pair<Lane, std::vector<int>>> ops;
    std::vector<double> seconds, end(std::size_t(count), 0.0);
    double lane_end[2] = {0, 0}, busy[2] = {0, 0}, last = 0;
    for (int i = 0; i < count; ++i) {
      const int lane = int(random() % 2);
      std::vector<int> waits;
      for (int w = 0; w < i; ++w)
        if (ops[std::size_t(w)].first != (lane == 0 ? C : M) && random() % 4 == 0) waits.push_back(w);
      seconds.push_back(double(random() % 1000) / 100);
      double start = lane_end[lane];
      for (const int w : waits) start = std::max(start, end[std::size_t(w)]);
      end[std::size_t(i)] = lane_end[lane] = start + seconds.back();
      busy[lane] += seconds.back();
      last = std::max(last, lane_end[lane]);
      ops.emplace_back(lane == 0 ? C : M, waits);
    }
    const Simulation s = simulate(list_of(ops), seconds, {});
    CHECK(s.seconds == doctest::Approx(last));
    for (int i = 0; i < count; ++i)
      CHECK(s.spans[std::size_t(i)].end == doctest::Approx(end[std::size_t(i)]));
    CHECK(s.busy[0] == doctest::Approx(busy[0]));
    CHECK(s.exposed == doctest::Approx(last - busy[0]));
    // The critical path has no gaps: its ops add up to the step.
    double path = 0;
    for (const int op : s.critical) path += seconds[std::size_t(op)];
    CHECK(path == doctest::Approx(last));
  }
}

}  // namespace
}  // namespace zt::plan
