// A process may die at any moment.
#include <algorithm>
#include <random>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

constexpr int kKills = 7, kKillsDuringSaves = 3;  // of each way
constexpr int kTries = 40;

struct Kills {
  int all = 0, during_saves = 0;
};

// Waits until a save is under way; gives up when none comes.
void wait_for_save(const FaultDesk& desk, fs::file_time_type since) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(20) &&
         !desk.has_partial("out", since))
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

// One life, killed at a random moment, or while a save is under way as long as that is needed.
void live_and_be_killed(const FaultDesk& desk, const Way& way, const Words& sets, std::mt19937& random,
                        Kills& kills) {
  const bool at_a_save = kills.during_saves < kKillsDuringSaves && random() % 2 == 0;
  const std::chrono::milliseconds moment(random() % 400);
  const auto born = fs::file_time_type::clock::now();
  const pid_t run = desk.begin(way, sets);
  if (at_a_save) {
    wait_for_save(desk, born);
  } else {  // anything: while it starts, reads, trains, saves
    std::this_thread::sleep_for(moment);
  }
  const Outcome o = desk.kill_all(way, run);
  CHECK_MESSAGE(o.status == 128 + SIGKILL, end_of(o.err));
  CHECK_FALSE(contains(o.err, "error: "));
  ++kills.all;
  kills.during_saves += desk.has_partial("out", born) ? 1 : 0;
}

}  // namespace

TEST_CASE("fault: SIGKILL at random moments, saves among them, costs at most the steps since the last save") {
  std::mt19937 random(20);
  for (const Way& way : {kAlone, kTwo, kTwoLaunched}) {
    CAPTURE(way.name());
    const FaultDesk desk;
    const auto sets = [](const std::string& steps) {
      return Words{"model.config.num_hidden_layers=4", "train.global_batch_size=12",
                   "train.max_steps=" + steps};
    };
    Kills kills;
    std::int64_t safe = 0;
    for (int i = 0; i < kTries && (kills.all < kKills || kills.during_saves < kKillsDuringSaves); ++i) {
      live_and_be_killed(desk, way, sets("1000000"), random, kills);
      // No checkpoint that was there is lost, and the newest one is what its manifest says, byte by byte.
      const std::vector<std::int64_t> steps = desk.steps("out");
      if (steps.empty()) continue;
      CHECK(steps.back() >= safe);
      safe = steps.back();
      CHECK(checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", safe)).verify().empty());
    }
    CHECK(kills.all >= kKills);
    CHECK(kills.during_saves >= kKillsDuringSaves);

    // Longer than the warm-up, also where no save came before a kill.
    const std::string steps = cat(std::max<std::int64_t>(desk.last_step("out") + 3, 6));
    desk.good(way, sets(steps));
    Words straight = sets(steps);
    straight.push_back("run.output_dir=straight");
    desk.good(way, straight);
    CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
    CHECK((desk.weights("out") == desk.weights("straight")));
    for (const checkpoint::Listed& listed : desk.checkpoints("out")) CHECK(listed.fault == "");
    CHECK(desk.checkpoints("out").size() == 3);
    MESSAGE(way.name(), ": ", kills.all, " kills, ", kills.during_saves, " during saves, ", steps, " steps");
  }
}

}  // namespace zt::test
