// The pipeline on two ranks that are threads: the correct one is silent whatever runs first, every bug is reported.
#include "pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "program.h"

namespace zt::emulator {
namespace {

constexpr double kTolerance = 0.05;  // bf16 results of size about 1, six roundings
constexpr int kRanks = 2;

bool found_as(const std::vector<Finding>& findings, const std::vector<std::string>& kinds) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
    return std::find(kinds.begin(), kinds.end(), f.kind) != kinds.end();
  });
}

TEST_CASE("the correct pipeline is right and without findings, by 25 seeds and every policy") {
  for (const Policy policy : {Policy::lazy, Policy::eager, Policy::random}) {
    const int seeds = policy == Policy::random ? 25 : 3;
    for (int seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      CAPTURE(int(policy));
      configure(std::uint64_t(seed), policy, Order::random);
      CHECK(run_pipeline_in_threads(kRanks, Bug::none) < kTolerance);
      check_none(take_findings());
    }
  }
}

TEST_CASE("each of the eight bugs is reported under every policy") {
  for (const Bug bug : kBugs) {
    for (const Policy policy : {Policy::lazy, Policy::eager, Policy::random}) {
      for (int seed = 1; seed <= 3; ++seed) {
        INFO(name(bug));
        CAPTURE(seed);
        CAPTURE(int(policy));
        configure(std::uint64_t(seed), policy, Order::random);
        run_pipeline_in_threads(kRanks, bug);
        const std::vector<Finding> findings = take_findings();
        INFO(to_string(findings));
        CHECK(found_as(findings, kinds(bug)));
      }
    }
  }
}

TEST_CASE("ranks that disagree about a collective are named on both sides") {
  configure(1, Policy::random, Order::random);
  run_pipeline_in_threads(kRanks, Bug::swapped_collectives);
  const std::vector<Finding> findings = take_findings();
  INFO(to_string(findings));
  for (const std::string rank : {"rank 0", "rank 1"})
    CHECK(std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.where == rank; }));
  CHECK(findings.front().text.find("all-reduce of 16 f32") != std::string::npos);
}

TEST_CASE("without its checks the emulator lets a program through whose bug did not show") {
  configure(1, Policy::random, Order::random, false);
  run_pipeline_in_threads(kRanks, Bug::shared_workspace);
  CHECK(take_findings().empty());
}

TEST_CASE("every wait of the pipeline that orders anything is missed when it is forgotten") {
  configure(1, Policy::random, Order::random);
  run_pipeline_in_threads(kRanks, Bug::none);
  check_none(take_findings());
  const std::vector<Wait> all = waits(0);
  REQUIRE_EQ(all.size(), 10);  // six layers wait for their gather, four gathers for their buffer
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("wait ", i, " at ", all[i].place);
    CHECK(all[i].needed);
    CHECK(all[i].place.find("pipeline.cpp:") != std::string::npos);
    configure(1, Policy::random, Order::random);
    forget_wait(0, std::int64_t(i));
    run_pipeline_in_threads(kRanks, Bug::none);
    CHECK_FALSE(take_findings().empty());
  }
}

}  // namespace
}  // namespace zt::emulator
