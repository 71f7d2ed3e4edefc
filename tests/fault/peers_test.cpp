// One rank goes wrong while the others work: the job ends soon, says once who and why, leaves no process, and the run
// goes on from its last checkpoint as if nothing had been. With the recipe's own limits where nothing else is said.
#include <random>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

constexpr double kLongest = 60;
const Way kThree{3, true};

Way preloaded(const FaultDesk& desk, Way way) {
  const char* const library = std::getenv("ZEROTRAIN_MISBEHAVE");
  REQUIRE_MESSAGE(library != nullptr, "CTest sets ZEROTRAIN_MISBEHAVE");
  way.environment = {cat("LD_PRELOAD=", library), cat("MISBEHAVE_FILE=", (desk.path() / "order").string())};
  return way;
}

// What holds after every end.
void check_end(const FaultDesk& desk, const Outcome& o) {
  CHECK(o.status > 0);
  CHECK(o.status != 75);
  CHECK(o.seconds < kLongest);
  CHECK(desk.survivors() == "");
  const std::vector<std::int64_t> steps = desk.steps("out");
  REQUIRE_FALSE(steps.empty());
  CHECK(checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", steps.back()))
            .verify()
            .empty());
}

// The run goes on, and its lines are those of a run without a fault.
void check_resumed(const FaultDesk& desk, const Way& way) {
  const std::string steps = cat("train.max_steps=", std::max<std::int64_t>(desk.last_step("out") + 3, 6));
  const Outcome on = desk.good(way, {steps});
  CHECK(contains(on.err, "going on after step "));
  desk.good(way, {steps, "run.output_dir=straight"});
  CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
  CHECK((desk.weights("out") == desk.weights("straight")));
}

// Says how many causes were told.
int causes(const Outcome& o) { return count(o.err, "error: "); }

}  // namespace

TEST_CASE(
    "fault: a rank that is stopped is noticed by its silence, named once, and the job ends without a trace") {
  std::mt19937 random(31);
  for (int i = 0; i < 4; ++i) {
    const int stopped = i == 0 ? 0 : int(random() % 3);
    const auto step = std::int64_t(3 + random() % 20);
    CAPTURE(stopped);
    CAPTURE(step);
    const FaultDesk desk;
    const pid_t run = desk.begin(kThree, {"train.max_steps=1000000", "comm.silence_seconds=3"});
    REQUIRE(desk.wait_for_step("out", step));
    REQUIRE(desk.wait_for_checkpoint("out"));
    const pid_t process = FaultDesk::processes(kThree, run).at(std::size_t(stopped));
    ::kill(process, SIGSTOP);
    const Outcome o = desk.finish(run, kLongest);
    CAPTURE(end_of(o.err));
    CHECK(o.status == 6);
    CHECK(causes(o) == 1);
    CHECK(contains(o.err, cat("error: rank ", stopped, " (host ")));
    CHECK(contains(o.err, cat(", process ", process, ") has given no sign of life for ")));
    CHECK(contains(o.err, "it is stopped (SIGSTOP); last heard of: rank "));
    check_end(desk, o);
    if (i < 2) check_resumed(desk, kThree);
    MESSAGE("rank ", stopped, " stopped after step ", step, ": ended after ", o.seconds, " s");
  }
}

TEST_CASE("fault: with the recipe's own limits a stopped rank ends the job in less than a minute") {
  const FaultDesk desk;
  const pid_t run = desk.begin(kThree, kEndless);
  REQUIRE(desk.wait_for_step("out", 4));
  REQUIRE(desk.wait_for_checkpoint("out"));
  ::kill(FaultDesk::processes(kThree, run).at(1), SIGSTOP);
  const Outcome o = desk.finish(run, kLongest);
  CAPTURE(end_of(o.err));
  CHECK(o.status == 6);
  CHECK(causes(o) == 1);
  check_end(desk, o);
  MESSAGE("ended after ", o.seconds, " s");
}

TEST_CASE("fault: a rank that is stopped for less than the limit goes on, and nothing is said") {
  const FaultDesk desk;
  const pid_t run = desk.begin(kThree, {"train.max_steps=1000000", "comm.silence_seconds=6"});
  REQUIRE(desk.wait_for_step("out", 3));
  const auto processes = FaultDesk::processes(kThree, run);
  ::kill(processes.at(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  ::kill(processes.at(1), SIGCONT);
  const std::int64_t step = desk.last_step("out");
  CHECK(desk.wait_for_step("out", step + 3));
  // All at once, as a batch system suspends a job: nobody is to blame for the time after it.
  for (const pid_t process : processes) ::kill(process, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(9));
  for (const pid_t process : processes) ::kill(process, SIGCONT);
  const std::int64_t later = desk.last_step("out");
  CHECK(desk.wait_for_step("out", later + 3));
  ::kill(processes.back(), SIGTERM);
  const Outcome o = desk.finish(run, kLongest);
  CHECK_MESSAGE(o.status == 75, end_of(o.err));
  CHECK(causes(o) == 0);
  CHECK(desk.survivors() == "");
}

TEST_CASE(
    "fault: a rank that is killed at a random step ends the job, and its run goes on as if nothing had "
    "been") {
  std::mt19937 random(32);
  for (int i = 0; i < 3; ++i) {
    const auto killed = std::size_t(random() % 3);
    const auto step = std::int64_t(3 + random() % 20);
    CAPTURE(killed);
    CAPTURE(step);
    const FaultDesk desk;
    const pid_t run = desk.begin(kThree, kEndless);
    REQUIRE(desk.wait_for_step("out", step));
    REQUIRE(desk.wait_for_checkpoint("out"));
    ::kill(FaultDesk::processes(kThree, run).at(killed), SIGKILL);
    const Outcome o = desk.finish(run, kLongest);
    CAPTURE(end_of(o.err));
    check_end(desk, o);
    check_resumed(desk, kThree);
    MESSAGE("rank ", killed, " killed after step ", step, ": ended after ", o.seconds, " s");
  }
}

TEST_CASE(
    "fault: whatever ends one rank from within ends the job within seconds, and its cause is told once") {
  struct Case {
    std::string function, how, says;
    int status;  // of the job; 0: any but 0
  };
  const std::vector<Case> cases = {
      {"product", "throws", "a value that cannot be", 70},
      {"product", "throws-no-memory", "memory ran out", 7},
      {"product", "throws-a-number", "an exception that nobody catches", 134},
      {"product", "aborts", "ended by abort() (SIGABRT)", 134},
      {"product", "breaks", "ended by a broken address (SIGSEGV)", 139},
      {"product", "divides", "ended by an impossible division (SIGFPE)", 136},
      {"product", "terminates", "std::terminate() was called", 134},
      {"product", "exits-0", "a library called exit() while the ranks were at work", 70},
      {"product", "exits-3", "a library called exit() while the ranks were at work", 70},
      {"product", "leaves-0", "", 0},
      {"product", "is-killed", "", 0},
      {"sync", "throws", "a value that cannot be", 70},
      {"sync", "aborts", "ended by abort() (SIGABRT)", 134},
      {"yield", "breaks", "ended by a broken address (SIGSEGV)", 139},
  };
  std::mt19937 random(33);
  for (const Case& c : cases) {
    const int rank = int(random() % 3);
    CAPTURE(c.function);
    CAPTURE(c.how);
    CAPTURE(rank);
    const FaultDesk desk;
    const Way way = preloaded(desk, kThree);
    const pid_t run = desk.begin(way, kEndless);
    REQUIRE(desk.wait_for_step("out", 4));
    REQUIRE(desk.wait_for_checkpoint("out"));
    desk.write("order", cat(rank, " ", c.function, " ", c.how, "\n"));
    const Outcome o = desk.finish(run, kLongest);
    CAPTURE(end_of(o.err));
    CHECK(o.seconds < 30);
    if (c.status != 0) CHECK(o.status == c.status);
    CHECK(causes(o) == (c.says.empty() ? 0 : 1));
    if (!c.says.empty()) {
      CHECK(count(o.err, c.says) == 1);
      if (!contains(c.how, "exits")) CHECK(contains(o.err, cat("error: rank ", rank)));
    }
    check_end(desk, o);
    MESSAGE(c.function, " ", c.how, " on rank ", rank, ": status ", o.status, " after ", o.seconds, " s");
  }
}

TEST_CASE("fault: the same ends of a rank that is a thread end the program") {
  struct Case {
    std::string how, says;
    int status;
  };
  const std::vector<Case> cases = {
      {"throws", "a value that cannot be", 70},
      {"throws-no-memory", "memory ran out", 7},
      {"aborts", "ended by abort() (SIGABRT)", 128 + SIGABRT},
      {"breaks", "ended by a broken address (SIGSEGV)", 128 + SIGSEGV},
      {"terminates", "std::terminate() was called", 128 + SIGABRT},
  };
  for (const Case& c : cases) {
    CAPTURE(c.how);
    const FaultDesk desk;
    const Way way = preloaded(desk, {3, false});
    const pid_t run = desk.begin(way, kEndless);
    REQUIRE(desk.wait_for_step("out", 4));
    REQUIRE(desk.wait_for_checkpoint("out"));
    desk.write("order", cat("0 product ", c.how, "\n"));
    const Outcome o = desk.finish(run, kLongest);
    CAPTURE(end_of(o.err));
    CHECK(o.status == c.status);
    CHECK(count(o.err, c.says) == 1);
    CHECK(contains(o.err, "error: rank "));
    CHECK(causes(o) == 1);
    check_end(desk, o);
  }
}

TEST_CASE("fault: a rank that computes for ever is named with the operation and block in which it hangs") {
  for (const Way& transport : {kThree, Way{3, false}}) {
    CAPTURE(transport.name());
    const FaultDesk desk;
    const Way way = preloaded(desk, transport);
    const pid_t run = desk.begin(way, {"train.max_steps=1000000", "comm.timeout_seconds=6",
                                       "data.validation=null", "train.eval_every=0"});
    REQUIRE(desk.wait_for_step("out", 4));
    REQUIRE(desk.wait_for_checkpoint("out"));
    desk.write("order", cat(way.launched ? 1 : 0, " product sleeps\n"));
    const Outcome o = desk.finish(run, kLongest);
    CAPTURE(end_of(o.err));
    CHECK(o.status == 6);
    CHECK(causes(o) == 1);
    CHECK(contains(o.err, " waited 6 s in "));
    CHECK(contains(o.err, ", which has been in step "));
    if (way.launched) CHECK(contains(o.err, "furthest behind is rank 1"));
    check_end(desk, o);
  }
}

}  // namespace zt::test
