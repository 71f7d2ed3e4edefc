#include "measure/checkup.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace zt::measure {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// A machine of which nothing is wrong.
Surroundings healthy() {
  Surroundings s;
  s.machine = {"anna", "A Processor", 16, 64 * kGiB, 60 * kGiB, 32 * kGiB, 32 * kGiB};
  s.here = {"ext4", 500 * kGiB, 200 * kGiB};
  s.mpi = "Open MPI v4.1.4";
  s.calibration_path = "/home/anna/.cache/zerotrain/anna.yaml";
  s.now = 1'795'000'000;
  s.calibration.emplace();
  s.calibration->calibrated = utc_text(s.now - 3 * 86400);
  s.calibration->nodes = {{.ranks = 1}, {.ranks = 2}};
  return s;
}

Finding find(const Surroundings& s, const std::string& subject) {
  const std::vector<Finding> all = checkup(s);
  const auto found = std::ranges::find(all, subject, &Finding::subject);
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

TEST_CASE("checkup: a healthy machine needs no cure") {
  for (const Finding& f : checkup(healthy())) {
    CAPTURE(f.subject);
    CHECK(!f.what.empty());
    CHECK(f.cure.empty());
  }
  CHECK(find(healthy(), "calibration").what ==
        "/home/anna/.cache/zerotrain/anna.yaml: 1, 2 ranks, 3 days old");
}

TEST_CASE("checkup: what is wrong comes with its numbers and a cure, and nothing else does") {
  struct Case {
    std::string subject, number, cure;
    void (*spoil)(Surroundings&);
  };
  const Case cases[] = {
      {"cores", "16, for 40 ranks", "at most 16", [](Surroundings& s) { s.launched = 40; }},
      {"memory", "1.00 GiB free", "end other programs", [](Surroundings& s) { s.machine.available = kGiB; }},
      {"/dev/shm", "1.00 MiB", "--shm-size",
       [](Surroundings& s) { s.machine.shared = s.machine.shared_free = 1 << 20; }},
      {"/dev/shm", "absent", "tmpfs", [](Surroundings& s) { s.machine.shared = s.machine.shared_free = -1; }},
      {"disk", "1.00 GiB of 500.00 GiB", "run.output_dir", [](Surroundings& s) { s.here.free = kGiB; }},
      {"disk", "tmpfs", "in memory", [](Surroundings& s) { s.here.kind = "tmpfs"; }},
      {"calibration", "none in /home", "--calibrate", [](Surroundings& s) { s.calibration.reset(); }},
      {"calibration", "line 3", "--calibrate",
       [](Surroundings& s) { s.calibration_fault = "line 3: nonsense"; }},
      {"calibration", "400 days old", "again",
       [](Surroundings& s) { s.calibration->calibrated = utc_text(s.now - 400 * 86400); }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.subject);
    CAPTURE(c.number);
    Surroundings s = healthy();
    c.spoil(s);
    const Finding f = find(s, c.subject);
    CHECK(f.what.find(c.number) != std::string::npos);
    CHECK(f.cure.find(c.cure) != std::string::npos);
    const std::vector<Finding> all = checkup(s);
    const bool shm_too = c.subject == "cores";  // so many ranks want more than there is
    CHECK(std::ranges::count_if(all, [](const Finding& x) { return !x.cure.empty(); }) <= (shm_too ? 2 : 1));
    CHECK(text(all).find("-> " + f.cure) != std::string::npos);
  }
}

TEST_CASE("checkup: ages are told in the largest unit that fits") {
  plan::Cluster c;
  const auto age = [&](std::int64_t seconds) {
    c.calibrated = utc_text(1'795'000'000 - seconds);
    return age_text(c, 1'795'000'000);
  };
  CHECK(age(0) == "0 minutes old");
  CHECK(age(60) == "1 minute old");
  CHECK(age(7199) == "119 minutes old");
  CHECK(age(7200) == "2 hours old");
  CHECK(age(2 * 86400) == "2 days old");
  CHECK(age(-5) == "0 minutes old");  // a clock that was set back
  CHECK(age(-3600) == "dated in the future");
  c.calibrated.reset();
  CHECK(age_text(c, 0).empty());
}

}  // namespace zt::measure
