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

TEST_CASE("state: every member is needed, and no other is taken") {
  const nlohmann::json good = to_json(state_of(7, 3));
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
