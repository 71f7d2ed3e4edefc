// Disks that are full or can't be written: the run says so, and earlier checkpoints stay as they are.
#include <signal.h>
#include <sys/resource.h>

#include "fault/fault_desk.h"
#include "fault/mount.h"

namespace zt::test {
namespace {

// While it lives, files can't grow beyond so many bytes: writing more fails, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_ = {};
};

void check_all_good(const FaultDesk& desk, const std::string& folder) {
  for (const checkpoint::Listed& listed : desk.checkpoints(folder)) {
    CHECK(listed.fault == "");
    CHECK(checkpoint::Checkpoint::open(listed.folder).verify().empty());
  }
}

}  // namespace

TEST_CASE("fault: a disk that gets full ends the run with numbers and advice; with space it goes on") {
  for (const char* async : {"true", "false"}) {
    for (const Way& way : {kAlone, kTwoLaunched}) {
      CAPTURE(async);
      CAPTURE(way.name());
      const FaultDesk desk;
      const Mount disk(desk.path() / "small", 4096);
      if (!disk.made()) return;
      const Words sets = {"run.output_dir=small/out", "checkpoint.keep_last=1000", "train.max_steps=40",
                          cat("checkpoint.async=", async)};
      const Outcome o = desk.train(way, sets);
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(count(o.err, "error ") + count(o.err, "error: ") == 1);
      CHECK(contains(o.err, "the disk of small/out/checkpoints is too full for a checkpoint: it takes "));
      CHECK(contains(o.err, " bytes) are free"));
      CHECK(contains(o.err, "checkpoint.keep_last"));
      const std::vector<std::int64_t> steps = desk.steps("small/out");
      CHECK(steps.size() > 2);
      check_all_good(desk, "small/out");
      CHECK_FALSE(desk.has("small/out/export"));

      disk.resize(40960);
      CHECK(contains(desk.good(way, sets).err, cat("going on after step ", steps.back())));
      CHECK(desk.steps("small/out").size() == 20);
      check_all_good(desk, "small/out");
    }
  }
}

TEST_CASE("fault: a disk that refuses in the middle of a save costs that save only") {
  for (const char* async : {"true", "false"}) {
    for (const Way& way : {kAlone, kTwo}) {
      CAPTURE(async);
      CAPTURE(way.name());
      const FaultDesk desk;
      desk.good(way, {"train.max_steps=4", cat("checkpoint.async=", async)});
      const auto longer = [&] {
        return desk.train(way, {"train.max_steps=8", cat("checkpoint.async=", async)});
      };
      {
        const FileLimit limit(100'000);  // a rank's file has more
        const Outcome o = longer();
        CHECK_MESSAGE(o.status == 7, end_of(o.err));
        CHECK(count(o.err, "error: ") == 1);
        CHECK_MESSAGE(contains(o.err, "out/checkpoints/step-00000006.partial/rank-0000"), end_of(o.err));
        CHECK(contains(o.err, "hint: "));
      }
      CHECK(desk.steps("out") == std::vector<std::int64_t>{2, 4});
      check_all_good(desk, "out");
      CHECK(contains(longer().err, "going on after step 4"));
      CHECK(desk.steps("out") == std::vector<std::int64_t>{4, 6, 8});
    }
  }
}

TEST_CASE("fault: folders that can't be written are named, whatever is in them already stays") {
  const FaultDesk desk;
  desk.good(kAlone, {"train.max_steps=4"});
  for (const std::string folder : {"out/checkpoints", "out"}) {
    for (const Way& way : {kAlone, kTwoLaunched}) {
      CAPTURE(folder);
      CAPTURE(way.name());
      const Mount locked(desk.path() / folder);
      if (!locked.made()) return;
      const Outcome o = desk.train(way, {"train.max_steps=8"});
      CHECK_MESSAGE(o.status == 7, end_of(o.err));
      CHECK(count(o.err, "error: ") == 1);
      CHECK_MESSAGE(contains(o.err, folder), end_of(o.err));
      CHECK(contains(o.err, "Read-only file system"));
      CHECK(contains(o.err, "hint: "));
    }
  }
  desk.write("blocked/checkpoints", "a file where the folder should be");
  const Outcome o = desk.train(kTwo, {"run.output_dir=blocked"});
  CHECK(o.status == 7);
  CHECK(contains(o.err, "blocked/checkpoints"));
  CHECK(desk.steps("out") == std::vector<std::int64_t>{2, 4});
  check_all_good(desk, "out");
}

}  // namespace zt::test
