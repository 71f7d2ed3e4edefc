#include "exec/trace.h"

#include <doctest/doctest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "exec/lanes.h"
#include "support/steps.h"

namespace zt::exec {
namespace {

using schedule::Lane;
using schedule::Op;

StepTrace traced(const schedule::Schedule& list, bool threads) {
  StepTrace trace;
  Lanes({threads, {}})
      .run(
          list,
          [](const Op& op, int) {
            std::this_thread::sleep_for(std::chrono::microseconds(op.lane == Lane::comm ? 900 : 300));
          },
          &trace);
  return trace;
}

TEST_CASE(
    "trace: ops of a lane follow each other, start after what they wait for, and waits fit between them") {
  const schedule::Schedule list = test::small_step(3, 2, 2);
  for (const bool threads : {false, true}) {
    CAPTURE(threads);
    const StepTrace trace = traced(list, threads);
    REQUIRE(trace.spans.size() == list.ops.size());
    std::array<double, schedule::kLanes> end{};
    for (std::size_t i = 0; i < list.ops.size(); ++i) {
      CAPTURE(name(list.ops[i]));
      const plan::Span& span = trace.spans[i];
      double& before = end[std::size_t(list.ops[i].lane)];
      CHECK(span.start >= before);
      CHECK(span.end - span.start >= (list.ops[i].lane == Lane::comm ? 900e-6 : 300e-6));
      CHECK(span.waited <= span.start - before + 1e-9);
      for (const int wait : list.ops[i].waits)
        if (wait >= 0) CHECK(span.start >= trace.spans[std::size_t(wait)].end);
      if (list.ops[i].lane == Lane::compute && span.waited > 0) {
        REQUIRE(span.blocker >= 0);
        CHECK(trace.spans[std::size_t(span.blocker)].end <= span.start);
      }
      before = span.end;
    }
    CHECK(trace.seconds >= std::max(end[0], end[1]));
    const plan::Simulation time = as_played(list, trace);
    CHECK(time.busy[0] + time.exposed <= trace.seconds + 1e-9);
    // The compute lane works or waits, and does little else.
    CHECK(time.exposed > 0);
  }
}

TEST_CASE("trace: without one, nothing is noted, and what was noted before is left alone") {
  const schedule::Schedule list = test::small_step(2, 1, 2);
  Lanes lanes({true, {}});
  StepTrace trace;
  lanes.run(list, [](const Op&, int) {}, &trace);
  const double seconds = trace.seconds;
  lanes.run(list, [](const Op&, int) {});
  CHECK(trace.seconds == seconds);
}

TEST_CASE("trace: what is written is read back, ops, lanes, waits and sums") {
  const schedule::Schedule list = test::small_step(3, 2, 2);
  StepTrace trace = traced(list, true);
  trace.tail = 1e-4;
  const plan::Simulation time = as_played(list, trace);
  const PlayedStep step = read_trace(trace_json(list, trace, 17, 0, 2), "trace.json");
  CHECK(step.step == 17);
  CHECK(step.ranks == 2);
  REQUIRE(step.list.ops.size() == list.ops.size());
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    CHECK(name(step.list.ops[i]) == name(list.ops[i]));
    CHECK(step.list.ops[i].lane == list.ops[i].lane);
    CHECK(step.time.spans[i].start == doctest::Approx(trace.spans[i].start).epsilon(1e-6));
    CHECK(step.time.spans[i].end == doctest::Approx(trace.spans[i].end).epsilon(1e-6));
    if (list.ops[i].lane != Lane::compute) continue;
    CHECK(step.time.spans[i].waited == doctest::Approx(trace.spans[i].waited).epsilon(1e-4));
    if (trace.spans[i].waited > 0) CHECK(step.time.spans[i].blocker == trace.spans[i].blocker);
  }
  CHECK(step.time.tail == doctest::Approx(1e-4));
  CHECK(step.time.exposed == doctest::Approx(time.exposed).epsilon(1e-4));
  CHECK(step.time.busy[0] == doctest::Approx(time.busy[0]).epsilon(1e-4));
  double blocks = 0;
  const auto json = nlohmann::json::parse(trace_json(list, trace, 17, 0, 2));
  for (const auto& block : json["blocks"]) blocks += block["exposed_seconds"].get<double>();
  CHECK(blocks + 1e-4 == doctest::Approx(json["exposed_comm_seconds"].get<double>()).epsilon(1e-4));
}

TEST_CASE("trace: a broken file is refused with the place and the fault") {
  const schedule::Schedule list = test::small_step(2, 1, 2);
  const auto good = nlohmann::json::parse(trace_json(list, traced(list, true), 3, 0, 2));
  struct Case {
    const char* pointer;
    nlohmann::json value;
    const char* fault;
  };
  for (const Case& c :
       {Case{"/step", -1, "t.json: 'step' must be a whole number"}, Case{"/ranks", 0, "'ranks' must be"},
        Case{"/seconds", "long", "'seconds' must be a number of seconds"},
        Case{"/ops", 5, "'ops' must be a list"}, Case{"/ops", nlohmann::json::array(), "has no operations"},
        Case{"/ops/1/kind", "think", "t.json, operation 1: 'kind' is 'think', which is no kind of operation"},
        Case{"/ops/0/lane", "slow", "operation 0: 'lane' is 'slow', which is no lane"},
        Case{"/ops/2/block", 1e9, "'block' must be a whole number"}, Case{"/ops/2/end", -1, "'end' must be"},
        Case{"/ops/2/start", 1e8, "'end' is before 'start'"},
        Case{"/ops/3", 7, "operation 3: 'kind' is missing"},
        Case{"/waits/0/op", 100000, "wait 0: 'op' must be a whole number from 0 to"},
        Case{"/waits/0/waits_for", -5, "wait 0: 'waits_for' must be"}}) {
    CAPTURE(c.pointer);
    nlohmann::json broken = good;
    broken[nlohmann::json::json_pointer(c.pointer)] = c.value;
    std::string said;
    try {
      read_trace(broken.dump(), "t.json");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::data);
      said = e.what();
    }
    CHECK_MESSAGE(said.find(c.fault) != std::string::npos, said);
  }
  CHECK_THROWS_AS(read_trace("{", "t.json"), Error);
  CHECK_THROWS_AS(read_trace("[]", "t.json"), Error);
}

}  // namespace
}  // namespace zt::exec
