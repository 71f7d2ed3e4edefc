#include "measure/machine.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "measure/calibrate.h"
#include "support/paths.h"

namespace zt::measure {

TEST_CASE("machine: the system tells what it is") {
  const Machine m = this_machine();
  CHECK(!m.host.empty());
  CHECK(m.cores >= 1);
  CHECK(m.memory > 100 << 20);
  CHECK(m.available > 0);
  CHECK(m.available <= m.memory);
  CHECK(!mpi_library().empty());
  CHECK(mpi_library().find('\n') == std::string::npos);
}

TEST_CASE("machine: the disk of a path that is not there yet is that of its nearest folder") {
  const test::ScratchDir desk;
  const Disk here = disk_of(desk.path()), below = disk_of(desk.path() / "not" / "yet");
  CHECK(here.bytes > 0);
  CHECK(here.free <= here.bytes);
  CHECK(below.kind == here.kind);
  CHECK(below.bytes == here.bytes);
  CHECK(disk_of("/proc").bytes == 0);
}

TEST_CASE("machine: times are written as UTC and read back") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(1'000'000'000) == "2001-09-09T01:46:40Z");
  for (const std::int64_t t : {0L, 951'782'400L, 1'795'000'000L, 4'102'444'799L})
    CHECK(seconds_of_utc(utc_text(t)) == t);
  for (const char* text : {"", "yesterday", "2026-11-30", "2026-11-30T04:00:00", "2026-11-30T04:00:00Z "})
    CHECK(seconds_of_utc(text) == -1);
}

TEST_CASE("machine: a program that computes is seen beside one that sleeps") {
  std::atomic<bool> done{false};
  std::jthread busy([&] {
    while (!done) {
    }
  });
  const double cores = busy_cores(0.2);
  done = true;
  CHECK(cores > 0.5);
  CHECK(cores < 1.2 * double(std::thread::hardware_concurrency()));
}

TEST_CASE("disk: a folder's disk is measured, and nothing stays in the folder") {
  const test::ScratchDir desk;
  const DiskRates rates = measure_disk(desk.path(), 5 << 20);
  CHECK(rates.write > 1e5);
  CHECK(rates.write < 1e11);
  CHECK(rates.read > 1e5);
  CHECK(rates.read < 1e12);
  CHECK(std::filesystem::is_empty(desk.path()));
}

TEST_CASE("disk: a folder that is not there is told with its name") {
  try {
    measure_disk("/no/such/folder", 1 << 20);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::machine);
    CHECK(e.problem() == "cannot make a file in /no/such/folder: No such file or directory");
    CHECK(e.hint().find("--to") != std::string::npos);
  }
}

}  // namespace zt::measure
