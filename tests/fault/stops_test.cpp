// What makes a run save or stop between steps, besides signals: a file that asks for a checkpoint, and a time limit.
#include <chrono>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

const Words kNoRegularSaves = {"train.max_steps=1000000", "checkpoint.every_steps=null",
                               "train.eval_every=0"};

Words with(Words sets, const Words& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

bool wait_until_gone(const FaultDesk& desk, const std::string& name) {
  for (int i = 0; i < 5000 && desk.has(name); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return !desk.has(name);
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Whether a process comes to handle a signal itself (SigCgt of /proc/PID/status) within ten seconds.
bool wait_until_handled(pid_t process, int signal) {
  for (int i = 0; i < 5000; ++i) {
    std::ifstream in(cat("/proc/", process, "/status"));
    for (std::string word; in >> word;)
      if (unsigned long long mask = 0; word == "SigCgt:" && in >> std::hex >> mask)
        if ((mask >> (signal - 1) & 1) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace

TEST_CASE("fault: OUTPUT_DIR/save-now asks for a checkpoint, which is there when the file is gone") {
  for (const Way& way : {kAlone, kTwo, kTwoLaunched}) {
    for (const char* every : {"null", "1000"}) {
      CAPTURE(way.name());
      CAPTURE(every);
      const FaultDesk desk;
      const pid_t run = desk.begin(way, with(kNoRegularSaves, {cat("checkpoint.every_steps=", every)}));
      REQUIRE(desk.wait_for_step("out", 2));
      for (const std::size_t saves : {1, 2}) {
        desk.write("out/save-now", "");
        REQUIRE(wait_until_gone(desk, "out/save-now"));
        CHECK(desk.steps("out").size() == saves);
        CHECK(desk.wait_for("out/events.jsonl", "\"save_requested\""));
        REQUIRE(desk.wait_for_step("out", desk.steps("out").back() + 1));
      }
      FaultDesk::signal_one(way, run, SIGTERM);
      CHECK(desk.finish(run, 60).status == 75);
    }
  }
}

TEST_CASE(
    "fault: run.time_limit ends a run with a checkpoint and status 75, in time; it goes on when started "
    "again") {
  for (const Way& way : {kAlone, kTwoLaunched}) {
    CAPTURE(way.name());
    const FaultDesk desk;
    const Words sets = with(kNoRegularSaves, {"run.time_limit=12"});
    const double begin = unix_now();
    const Outcome o = desk.train(way, sets);
    CHECK(o.status == 75);
    CHECK(unix_now() - begin < 12);
    CHECK(contains(o.err, "run.time_limit ends the run at 20"));
    CHECK(contains(o.err, "run.time_limit (until 20"));
    CHECK(count(o.err, "ended the run after step") == 1);
    REQUIRE(desk.steps("out").size() == 1);
    const std::int64_t stopped = desk.last_step("out");
    CHECK(desk.steps("out").back() == stopped);
    const Outcome again =
        desk.good(way, {cat("train.max_steps=", stopped + 3), "checkpoint.every_steps=null"});
    CHECK(contains(again.err, cat("going on after step ", stopped)));
  }
}

TEST_CASE(
    "fault: the batch system's end counts without a word in the recipe, unless the recipe wants no limit") {
  const FaultDesk desk;
  const auto in = [](double seconds) { return cat(static_cast<std::int64_t>(unix_now() + seconds)); };
  ::setenv("ZEROTRAIN_END_TIME", in(12).c_str(), 1);
  const Outcome limited = desk.train(kTwo, kNoRegularSaves);
  CHECK(limited.status == 75);
  CHECK(contains(limited.err, "ZEROTRAIN_END_TIME"));
  // No room for a step: said at once, rather than stopping and being started again for ever.
  ::setenv("ZEROTRAIN_END_TIME", in(3).c_str(), 1);
  const Outcome none = desk.train(kTwo, with(kNoRegularSaves, {"run.output_dir=none"}));
  CHECK(none.status == 2);
  CHECK(contains(none.err, "no time for a single step"));
  CHECK(contains(none.err, "sbatch --time"));
  ::setenv("ZEROTRAIN_END_TIME", in(-100).c_str(), 1);
  const Outcome unlimited =
      desk.train(kTwo, {"run.time_limit=none", "train.max_steps=5", "run.output_dir=unlimited"});
  CHECK(unlimited.status == 0);
  ::unsetenv("ZEROTRAIN_END_TIME");
}

TEST_CASE("fault: a rank that is stopped while the job starts ends it too, and is named once") {
  const Way three{3, true};
  for (const int ms : {0, 50, 150, 200, 250, 300, 350, 600}) {
    CAPTURE(ms);
    const FaultDesk desk;
    const pid_t run = desk.begin(three, {"train.max_steps=1000000", "comm.silence_seconds=3"});
    const std::vector<pid_t> ranks = FaultDesk::processes(three, run);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::kill(ranks[std::size_t(ms) % 3], SIGSTOP);
    const Outcome o = desk.finish(run, 60);
    CAPTURE(end_of(o.err));
    CHECK(o.status == 6);
    CHECK(count(o.err, "error: ") == 1);
    CHECK(contains(o.err, cat("process ", ranks[std::size_t(ms) % 3])));
    CHECK(desk.survivors() == "");
    MESSAGE("stopped after ", ms, " ms: ended after ", o.seconds, " s");
  }
}

TEST_CASE("fault: a signal to a rank that still waits for the others to start ends the run with status 75") {
  const Way three{3, true};
  for (const int signal : {SIGTERM, SIGUSR1}) {
    CAPTURE(signal);
    const FaultDesk desk;
    const pid_t run = desk.begin(three, kEndless);
    const std::vector<pid_t> ranks = FaultDesk::processes(three, run);
    ::kill(ranks[2], SIGSTOP);
    CHECK(wait_until_handled(ranks[0], signal));
    ::kill(ranks[0], signal);
    ::kill(ranks[2], SIGCONT);
    const Outcome o = desk.finish(run, 60);
    CAPTURE(end_of(o.err));
    CHECK(o.status == 75);
    CHECK(contains(o.err, "ended the run"));
    CHECK(desk.survivors() == "");
  }
}

}  // namespace zt::test
