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
  s.here = s.temporary = {"ext4", 500 * kGiB, 200 * kGiB};
  s.folder.write = 800e6;
  s.node_cores = 16;
  s.limits = {1024, 8 << 20, 0};
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
      {"cores", "4 of 16 (bound)", "taskset", [](Surroundings& s) { s.machine.cores = 4; }},
      {"cores", "1 of 16 (bound), for 2 ranks", "--bind-to none",
       [](Surroundings& s) {
         s.machine.cores = 1;
         s.launched = 2;
       }},
      {"cores", "OMP_NUM_THREADS=32", "unset OMP_NUM_THREADS", [](Surroundings& s) { s.threads = 32; }},
      {"memory", "1.00 GiB for this job", "sbatch --mem", [](Surroundings& s) { s.memory_limit = kGiB; }},
      {"swap", "3.00 GiB of 4.00 GiB", "end other programs",
       [](Surroundings& s) { s.swap = {3 * kGiB, 4 * kGiB}; }},
      {"launcher", "a job of 4 tasks", "srun --mpi=pmix", [](Surroundings& s) { s.job_tasks = 4; }},
      {"launcher", "no mpirun in PATH", "openmpi-bin", [](Surroundings& s) { s.mpirun = false; }},
      {"launcher", "4 ranks, but MPI counts 1", "its mpirun",
       [](Surroundings& s) {
         s.launched = 1;
         s.launch_fault = "the launcher started 4 ranks, but MPI counts 1";
         s.launch_cure = "start it with its mpirun";
       }},
      {"user", "root", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", [](Surroundings& s) { s.root_refused = true; }},
      {"disk", "10 MB/s", "takes 150 s", [](Surroundings& s) { s.folder.write = 10e6; }},
      {"disk", "Permission denied", "run.output_dir",
       [](Surroundings& s) { s.folder = {.fault = "Permission denied"}; }},
      {"disk", "nfs (network)", "hangs",
       [](Surroundings& s) {
         s.here.kind = "nfs";
         s.folder = {.answers = false};
       }},
      {"locks", "Function not implemented", "option flock",
       [](Surroundings& s) { s.folder.lock_fault = "Function not implemented"; }},
      {"/tmp", "1.00 MiB free", "TMPDIR", [](Surroundings& s) { s.temporary.free = 1 << 20; }},
      {"limits", "256 open files", "ulimit -n", [](Surroundings& s) { s.limits.open_files = 256; }},
      {"GPU", "no driver", "nvidia-smi", [](Surroundings& s) { s.gpus.library = true; }},
      {"GPU", "gives no device", "--gpus all",
       [](Surroundings& s) { s.gpus = {.library = true, .files = true}; }},
      {"clocks", "7.5 s apart", "chronyd",
       [](Surroundings& s) {
         s.launched = 2;
         s.clock_skew = 7.5;
       }},
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
    const bool shm_too = s.launched == 40;  // so many ranks want more than there is
    CHECK(std::ranges::count_if(all, [](const Finding& x) { return !x.cure.empty(); }) <= (shm_too ? 2 : 1));
    CHECK(text(all).find("-> " + f.cure) != std::string::npos);
  }
}

TEST_CASE("checkup: what is good to know and no fault has no cure") {
  Surroundings s = healthy();
  s.here.kind = "lustre";
  s.memory_limit = 32 * kGiB;
  s.temporary_executes = false;
  s.gpus = {.library = true, .files = true, .count = 2};
  s.swap = {0, 4 * kGiB};
  s.limits = {-1, -1, -1};
  s.launched = 2;
  for (const Finding& f : checkup(s)) {
    CAPTURE(f.subject);
    CHECK(f.cure.empty());
  }
  CHECK(find(s, "disk").what.find("lustre (network)") == 0);
  CHECK(find(s, "memory").what.find("32.00 GiB for this job or container") != std::string::npos);
  CHECK(find(s, "GPU").what == "2 by CUDA; this version computes on CPUs");
  CHECK(find(s, "limits").what == "unlimited open files, unlimited locked memory, core files unlimited");
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
