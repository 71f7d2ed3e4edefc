#include "checkpoint/state.h"

#include <doctest/doctest.h>

#include "pretend.h"

using namespace zt;
using namespace zt::checkpoint;
using namespace zt::test;

TEST_CASE("state: to JSON and back") {
  const RunState state = state_of(7, 3);
  CHECK(state_from_json(to_json(state), "S") == state);
}

TEST_CASE("state: what version 1 of the format did not have may be missing, and then there is none of it") {
  nlohmann::json old = to_json(state_of(7, 3));
  RunState expected = state_of(7, 3);
  for (const char* const key : {"left_out", "bad_steps", "place"}) old.erase(key);
  expected.left_out = {};
  expected.bad_steps = {};
  expected.place = nlohmann::json::object();
  CHECK(state_from_json(old, "S") == expected);
}

TEST_CASE("state: samples left out rise without touching, and are numbers of samples") {
  for (const char* const list :
       {R"({})", R"([{"first": -1, "count": 1}])", R"([{"first": 0, "count": 0}])",
        R"([{"first": 4, "count": 2}, {"first": 6, "count": 1}])",
        R"([{"first": 4, "count": 2}, {"first": 0, "count": 1}])",
        R"([{"first": 1, "count": 9223372036854775807}])", R"([{"first": 9223372036854775807, "count": 1}])",
        R"([{"first": 1}])", R"([[1, 2]])", R"([{"first": 1, "count": 1, "last": 2}])"}) {
    CAPTURE(list);
    nlohmann::json bad = to_json(state_of(7, 3));
    bad["left_out"] = nlohmann::json::parse(list);
    CHECK(says(error_of([&] { state_from_json(bad, "S"); }).what(), "S.left_out"));
  }
  for (const char* const losses : {R"("x")", R"([1, "2"])", R"([null])", R"({})"}) {
    nlohmann::json bad = to_json(state_of(7, 3));
    bad["bad_steps"]["losses"] = nlohmann::json::parse(losses);
    CHECK(says(error_of([&] { state_from_json(bad, "S"); }).what(), "S.bad_steps.losses must be a list"));
  }
}

TEST_CASE("state: every other member is needed, and no other is taken") {
  nlohmann::json good = to_json(state_of(7, 3));
  for (const char* const key : {"left_out", "bad_steps", "place"}) good.erase(key);
  CHECK(good.size() == 16);
  for (const auto& [key, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(key);
    bad[key + "_"] = value;
    const Error e = error_of([&] { state_from_json(bad, "S"); });
    CHECK_MESSAGE(says(e.what(), "S." + key + " is missing"), e.what());
    CHECK_MESSAGE(says(e.what(), "S has an unknown member '" + key + "_'"), e.what());
  }
}
