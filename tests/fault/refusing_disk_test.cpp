// Disks that refuse in many ways, in mid-run: what was saved stays good, the run says the system's reason and ends, or goes
// on where the recipe wants that.
#include <cerrno>
#include <cstring>

#include "fault/fault_desk.h"
#include "fault/mount.h"

namespace zt::test {
namespace {

// While it lives, programs that are started meet a disk that fails as the rules of faulty_disk.cpp say.
class FaultyDisk {
 public:
  explicit FaultyDisk(const std::string& rules) {
    const char* const library = std::getenv("ZEROTRAIN_FAULTY_DISK");
    if (library == nullptr) throw std::runtime_error("ZEROTRAIN_FAULTY_DISK does not name the library");
    ::setenv("ZEROTRAIN_TEST_DISK", rules.c_str(), 1);
    ::setenv("LD_PRELOAD", library, 1);
  }
  ~FaultyDisk() {
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("ZEROTRAIN_TEST_DISK");
  }
};

void check_all_good(const FaultDesk& desk, const std::string& folder) {
  for (const checkpoint::Listed& listed : desk.checkpoints(folder)) {
    if (listed.folder.extension() == ".partial") continue;
    CHECK(listed.fault == "");
    CHECK(checkpoint::Checkpoint::open(listed.folder).verify().empty());
  }
}

enum class Then { ends, goes_on, nothing };

struct Refusal {
  const char* call;
  const char* part;  // of a path
  int error;
  const char* says;  // where
  Then then = Then::ends;
};

std::string rule(const Refusal& r) { return cat(r.call, " ", r.part, " ", r.error, " 0"); }

// Disks fail at the save of step 6; those of steps 2 and 4 were good.
const Refusal kSaveRefusals[] = {
    {"write", "step-00000006.partial/rank-", EDQUOT, "step-00000006.partial/rank-0000"},
    {"fsync", "step-00000006.partial/rank-", EIO, "step-00000006.partial/rank-0000"},
    {"close", "step-00000006.partial/rank-", EIO, "step-00000006.partial/rank-0000"},
    {"write", "step-00000006.partial/model.h5", ENOSPC, "step-00000006.partial/model.h5"},
    {"write", "step-00000006.partial/manifest.json", ENOSPC, "step-00000006.partial/manifest.json"},
    {"fsync", "step-00000006.partial/manifest.json", EIO, "step-00000006.partial/manifest.json"},
    {"rename", "step-00000006", EIO, "step-00000006"},
    {"mkdir", "step-00000006.partial", EDQUOT, "step-00000006.partial"},
};

Words tiny_run(const char* async, int steps) {
  return {cat("train.max_steps=", steps), cat("checkpoint.async=", async), "logging.progress=none"};
}

}  // namespace

TEST_CASE(
    "fault: whatever a disk refuses of a save, its reason is told once, the job ends, and it can go on") {
  int number = 0;
  for (const Refusal& refusal : kSaveRefusals) {
    // Both ways of saving and of being started, for every second refusal each.
    const char* const async = number % 2 == 0 ? "true" : "false";
    const Way way = number / 2 % 2 == 0 ? kAlone : kTwoLaunched;
    ++number;
    CAPTURE(rule(refusal));
    CAPTURE(async);
    CAPTURE(way.name());
    const FaultDesk desk;
    desk.good(way, tiny_run(async, 4));
    {
      const FaultyDisk disk(rule(refusal));
      const Outcome o = desk.train(way, tiny_run(async, 8));
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(o.seconds < 60);
      CHECK(count(o.err, "error: ") == 1);
      CHECK_MESSAGE(contains(o.err, refusal.says), end_of(o.err));
      CHECK_MESSAGE(contains(o.err, std::strerror(refusal.error)), end_of(o.err));
    }
    CHECK(desk.steps("out") == std::vector<std::int64_t>{2, 4});
    check_all_good(desk, "out");
    CHECK(contains(desk.good(way, tiny_run(async, 8)).err, "going on after step 4"));
    CHECK(desk.steps("out") == std::vector<std::int64_t>{4, 6, 8});
  }
}

TEST_CASE("fault: on_failed_save: continue lets a refused save pass, and the weights come out the same") {
  for (const char* async : {"true", "false"}) {
    for (const Way& way : {kAlone, kTwoLaunched}) {
      CAPTURE(async);
      CAPTURE(way.name());
      const FaultDesk desk;
      Words sets = tiny_run(async, 8);
      desk.good(way, sets);
      const std::string undisturbed = desk.weights("out");
      sets.push_back("run.output_dir=refused");
      sets.push_back("checkpoint.on_failed_save=continue");
      const FaultyDisk disk(
          cat("fsync step-00000004.partial/rank- ", EIO, " 0;mkdir step-00000006.partial ", ENOSPC, " 0"));
      const Outcome o = desk.train(way, sets);
      CHECK_MESSAGE(o.status == 0, end_of(o.err));
      CHECK(count(o.err, "warning: the checkpoint of step 4 was not saved: ") == 1);
      CHECK(contains(o.err, "Input/output error; the last good one is of step 2"));
      CHECK(count(o.err, "warning: the checkpoint of step 6 was not saved: ") == 1);
      CHECK(contains(o.err, "No space left on device; the last good one is of step 2"));
      CHECK(desk.steps("refused") == std::vector<std::int64_t>{2, 8});
      check_all_good(desk, "refused");
      CHECK_FALSE(desk.has_partial("refused"));
      CHECK(desk.weights("refused") == undisturbed);
    }
  }
}

TEST_CASE(
    "fault: with on_failed_save: continue a run whose last save fails, or that is told to stop, still "
    "fails") {
  for (const char* async : {"true", "false"}) {
    CAPTURE(async);
    const FaultDesk desk;
    Words sets = tiny_run(async, 8);
    sets.push_back("checkpoint.on_failed_save=continue");
    {
      const FaultyDisk disk(cat("fsync step-00000008.partial/rank- ", EIO, " 0"));
      const Outcome o = desk.train(kTwo, sets);
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(contains(o.err, "Input/output error"));
      CHECK(desk.steps("out") == std::vector<std::int64_t>{2, 4, 6});
      CHECK_FALSE(desk.has("out/export"));
    }
    CHECK(contains(desk.good(kTwo, sets).err, "going on after step 6"));
    {
      const FaultyDisk disk(cat("fsync .partial/rank- ", EIO, " 0"));
      sets[0] = "train.max_steps=1000000";
      sets.push_back("run.output_dir=stopped");
      const pid_t run = desk.begin(kAlone, sets);
      REQUIRE(desk.wait_for_step("stopped", 5));
      ::kill(run, SIGTERM);
      const Outcome o = desk.finish(run, 60);
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(count(o.err, "error: ") == 1);
      CHECK(contains(o.err, "this run has saved none yet"));
      CHECK(desk.steps("stopped").empty());
    }
  }
}

TEST_CASE(
    "fault: what a run writes beside checkpoints is told with the system's reason when the disk refuses it") {
  const Refusal refusals[] = {
      {"write", "/out/metrics.jsonl", EDQUOT, "metrics.jsonl"},
      {"write", "/out/plan.txt", ENOSPC, "plan.txt"},
      {"fsync", "/out/recipe.yaml", EIO, "recipe.yaml"},
      {"write", "/out/events.jsonl", ENOSPC, "events.jsonl", Then::goes_on},
      {"write", "/out/run.json", ENOSPC, "run.json"},
      {"write", "/out/tensorboard/", ENOSPC, "tensorboard", Then::goes_on},
      {"write", "/out/export.partial/", EDQUOT, "export.partial"},
      {"fsync", "/out/export.partial/", EIO, "export.partial"},
      {"write", "/cache/", ENOSPC, "/cache/"},
      {"rename", "/cache/", EIO, "/cache/"},
      {"write", "/out/.lock", ENOSPC, "", Then::nothing},  // who has the folder is only told
  };
  int number = 0;
  for (const Refusal& refusal : refusals) {
    const Way way = number++ % 2 == 0 ? kTwoLaunched : kAlone;
    CAPTURE(rule(refusal));
    CAPTURE(way.name());
    const FaultDesk desk;
    const FaultyDisk disk(rule(refusal));
    const Outcome o = desk.train(way, tiny_run("true", 4));
    CHECK(o.seconds < 60);
    check_all_good(desk, "out");
    if (refusal.then == Then::nothing) {
      CHECK_MESSAGE(o.status == 0, end_of(o.err));
      continue;
    }
    CHECK_MESSAGE(contains(o.err, refusal.says), end_of(o.err));
    CHECK_MESSAGE(contains(o.err, std::strerror(refusal.error)), end_of(o.err));
    if (refusal.then == Then::goes_on) {
      CHECK_MESSAGE(o.status == 0, end_of(o.err));
      CHECK(count(o.err, "warning: ") == 1);
      CHECK(desk.has("out/export"));
      continue;
    }
    CHECK_MESSAGE(o.status == 7, end_of(o.err));
    CHECK(count(o.err, "error: ") == 1);
    CHECK_FALSE(desk.has("out/export"));
  }
}

// The writer of the last save takes five seconds longer than the run.
TEST_CASE(
    "fault: a run waits for the writer of its last save, whose checkpoint is the one a synchronous save "
    "makes") {
  const FaultDesk desk;
  desk.good(kTwo, tiny_run("false", 4));
  Words sets = tiny_run("true", 4);
  sets.push_back("run.output_dir=slow");
  {
    const FaultyDisk disk("fsync step-00000004.partial/rank-00001 -5 0");
    const Outcome o = desk.good(kTwo, sets);
    CHECK(o.seconds > 5);
    CHECK(contains(o.err, "checkpoint of step 4 saved"));
  }
  check_all_good(desk, "slow");
  CHECK(desk.steps("slow") == std::vector<std::int64_t>{2, 4});
  CHECK_FALSE(desk.has_partial("slow"));
  for (const char* const rank : {"/rank-00000-of-00002.h5", "/rank-00001-of-00002.h5"})
    CHECK(desk.read(FaultDesk::step_folder("slow", 4) + rank) ==
          desk.read(FaultDesk::step_folder("out", 4) + rank));
}

TEST_CASE("fault: a file system without locks is refused at once, with the setting that helps") {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    for (const Way& way : {kAlone, kTwoLaunched}) {
      CAPTURE(error);
      CAPTURE(way.name());
      const FaultDesk desk;
      const FaultyDisk disk(cat("flock /out/.lock ", error, " 0"));
      const Outcome o = desk.train(way, tiny_run("true", 4));
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(o.seconds < 60);
      CHECK(count(o.err, "error: ") == 1);
      CHECK(contains(o.err, cat("the file system of run folder out gives no locks (flock: ",
                                std::strerror(error), ")")));
      CHECK(contains(o.err, "mount it with locks"));
      CHECK(contains(o.err, "run.output_dir"));
    }
  }
}

TEST_CASE("fault: a run that was killed leaves no lock behind, one that lives names itself") {
  const FaultDesk desk;
  const pid_t run = desk.begin(kAlone, kEndless, {}, "background");
  REQUIRE(desk.wait_for_step("out", 3));
  const Outcome refused = desk.train(kTwoLaunched, {});
  CHECK(refused.status == 2);
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  CHECK_MESSAGE(contains(refused.err, cat("is in use by another process (process ", run, " on ", host, ")")),
                end_of(refused.err));
  ::kill(run, SIGKILL);
  CHECK(desk.finish(run, 60, "background").status == 128 + SIGKILL);
  desk.good(kAlone, {"train.max_steps=20"});
}

TEST_CASE("fault: a disk that becomes read-only in mid-run ends the run; it goes on when it can be written") {
  for (const Way& way : {kAlone, kTwoLaunched}) {
    CAPTURE(way.name());
    const FaultDesk desk;
    const LoopDisk disk(desk.path(), "disk");
    if (!disk.made()) return;
    const Words sets = {"run.output_dir=disk/out", "logging.progress=none", kEndless.front()};
    const pid_t run = desk.begin(way, sets);
    REQUIRE(desk.wait_for_step("disk/out", 7));
    REQUIRE(disk.turn_read_only());
    const Outcome o = desk.finish(run, 60);
    CHECK_MESSAGE(o.status == 7, end_of(o.err));
    CHECK(count(o.err, "error: ") == 1);
    CHECK_MESSAGE(contains(o.err, "Read-only file system"), end_of(o.err));
    REQUIRE(disk.mount_again());
    check_all_good(desk, "disk/out");
    const std::vector<std::int64_t> steps = desk.steps("disk/out");
    REQUIRE_FALSE(steps.empty());
    CHECK(steps.back() >= 4);
    const Outcome again = desk.good(way, {sets[0], sets[1], cat("train.max_steps=", steps.back() + 2)});
    CHECK(contains(again.err, cat("going on after step ", steps.back())));
  }
}

TEST_CASE("fault: permission that is lost in mid-run ends the run with the folder's name") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: starting a run as another user takes the rights of root");
    return;
  }
  const FaultDesk desk;
  // Nobody may write here; the user that the run has may, for now.
  fs::permissions(desk.path(), fs::perms::all);
  const pid_t run = desk.start_command({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                        Desk::binary(), "--recipe", "recipe.yaml", "--set", kEndless.front(),
                                        "--set", "logging.progress=none"});
  if (!desk.wait_for_step("out", 7)) {
    ::kill(run, SIGKILL);
    const Outcome o = desk.finish(run, 60);
    MESSAGE("skipped: another user cannot run the program here: " << end_of(o.err));
    return;
  }
  fs::permissions(desk.path() / "out/checkpoints", fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome o = desk.finish(run, 60);
  CHECK_MESSAGE(o.status == 7, end_of(o.err));
  CHECK(count(o.err, "error: ") == 1);
  CHECK(contains(o.err, "out/checkpoints"));
  CHECK_MESSAGE(contains(o.err, "Permission denied"), end_of(o.err));
  check_all_good(desk, "out");
  CHECK_FALSE(desk.steps("out").empty());
}

TEST_CASE("fault: a full ext4 of 64 MiB costs the save that met its end, and nothing that was saved before") {
  const FaultDesk desk;
  const LoopDisk disk(desk.path(), "small");
  if (!disk.made()) return;
  for (const Way& way : {kAlone, kTwoLaunched}) {
    const std::string out = way.launched ? "small/two" : "small/one";
    CAPTURE(way.name());
    // What is left is enough for some saves.
    disk.fill_but(way.launched ? 6 << 20 : 5 << 20);
    const Words sets = {"run.output_dir=" + out, "checkpoint.keep_last=1000", "train.max_steps=60",
                        "logging.progress=none"};
    const Outcome o = desk.train(way, sets);
    CHECK_MESSAGE(o.status == 7, end_of(o.err));
    CHECK(count(o.err, "error: ") == 1);
    CHECK_MESSAGE(
        (contains(o.err, "too full for a checkpoint") || contains(o.err, "No space left on device")),
        end_of(o.err));
    const std::vector<std::int64_t> steps = desk.steps(out);
    REQUIRE(steps.size() > 1);
    check_all_good(desk, out);
    disk.empty();
    CHECK(contains(desk.good(way, sets).err, cat("going on after step ", steps.back())));
    CHECK(desk.steps(out).back() == 60);
    check_all_good(desk, out);
    fs::remove_all(desk.path() / out);
  }
}

}  // namespace zt::test
