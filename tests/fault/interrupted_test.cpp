// A run that was interrupted and resumed, and the same run without: nobody can tell which is which.
#include <set>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

// Goes through every way to stop: an early max_steps, a signal that is answered, one that isn't. Then the run is
// completed, and made again in one piece.
void compare_with_straight(const Way& way, const Words& sets) {
  const FaultDesk desk;
  const auto with = [&sets](const Words& more) {
    Words all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  desk.good(way, with({"train.max_steps=4"}));

  pid_t run = desk.begin(way, with(kEndless));
  REQUIRE(desk.wait_for_step("out", 7));
  FaultDesk::signal_one(way, run, SIGTERM);
  const Outcome answered = desk.finish(run, 60);
  REQUIRE_MESSAGE(answered.status == 75, end_of(answered.err));
  CHECK(contains(answered.err, "going on after step 4"));
  const std::int64_t stopped = desk.last_step("out");
  CHECK(contains(answered.err, cat("ended the run after step ", stopped, " of 1000000")));
  CHECK(count(answered.err, "ended the run") == 1);

  run = desk.begin(way, with(kEndless));
  REQUIRE(desk.wait_for_step("out", stopped + 4));
  const Outcome killed = desk.kill_all(way, run);
  CHECK(contains(killed.err, cat("going on after step ", stopped)));
  CHECK(killed.status == 128 + SIGKILL);

  const std::string steps = cat("train.max_steps=", desk.last_step("out") + 3);
  desk.good(way, with({steps}));
  desk.good(way, with({steps, "run.output_dir=straight"}));
  CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
  CHECK((desk.weights("out") == desk.weights("straight")));
  CHECK(evaluations(desk.read("out/metrics.jsonl")).size() >= 4);
  CHECK_FALSE(desk.has_partial("out"));
}

}  // namespace

TEST_CASE("fault: a run that was stopped, killed and resumed has the lines and weights of a straight one") {
  int number = 0;
  for (const Way& way : {kTwo, Way{3, false}, kTwoLaunched}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const bool async = ++number % 2 == 1 || way.ranks == 3;
      CAPTURE(way.name());
      CAPTURE(stage);
      CAPTURE(async);
      compare_with_straight(way,
                            {cat("zero.stage=", stage), cat("checkpoint.async=", async ? "true" : "false")});
    }
  }
}

TEST_CASE("fault: the same alone, with saves beside training and between steps, in every dtype") {
  for (const char* async : {"true", "false"}) {
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      CAPTURE(async);
      CAPTURE(dtype);
      compare_with_straight(kAlone, {cat("checkpoint.async=", async), cat("model.dtype=", dtype)});
    }
  }
}

// The position in the data is a sample number, and epochs have orders of their own.
TEST_CASE("fault: stops inside later epochs change neither the order of rows nor their batches") {
  const FaultDesk desk;
  std::string numbers;  // no two rows are equal
  for (int i = 100; numbers.size() < 400; ++i) numbers += cat(i, " ");
  desk.write("text.txt", numbers.substr(0, 10 * 15 + 1));
  const Words ten_rows = {"data.validation=null", "train.eval_every=0", "data.add_eos=false",
                          "train.global_batch_size=2"};
  for (const Way& way : {kAlone, kTwo}) {
    CAPTURE(way.name());
    const std::string out = cat("out", way.ranks), straight = cat("straight", way.ranks);
    const auto train = [&](const std::string& folder, const Words& length) {
      Words sets = ten_rows;
      sets.push_back("run.output_dir=" + folder);
      sets.insert(sets.end(), length.begin(), length.end());
      desk.good(way, sets);
    };
    for (const int stop : {4, 7, 11}) train(out, {cat("train.max_steps=", stop)});
    train(out, {"train.max_steps=null", "train.epochs=3"});
    train(straight, {"train.max_steps=null", "train.epochs=3"});
    const auto hashes = desk.field(straight, "batch_hash");
    REQUIRE(hashes.size() == 15);
    CHECK(desk.field(out, "batch_hash") == hashes);
    CHECK(first_difference(desk.timeless(out), desk.timeless(straight)) == "");
    CHECK((desk.weights(out) == desk.weights(straight)));
  }
  CHECK(desk.field("out1", "batch_hash") == desk.field("out2", "batch_hash"));
}

TEST_CASE("fault: a finished run that is given more epochs trains the rows that are left of them") {
  const FaultDesk desk;
  std::string numbers;
  for (int i = 100; numbers.size() < 400; ++i) numbers += cat(i, " ");
  desk.write("text.txt", numbers.substr(0, 10 * 15 + 1));
  // Batches of 4, 4 and 2 rows end the first epoch; the second begins with its own first row.
  for (const char* epochs : {"1", "2"})
    desk.good(kAlone, {"data.validation=null", "train.eval_every=0", "data.add_eos=false",
                       "train.global_batch_size=4", "train.max_steps=null", cat("train.epochs=", epochs)});
  const auto tokens = desk.field("out", "supervised_tokens"), epochs = desk.field("out", "epoch");
  REQUIRE(tokens.size() == 6);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto at = std::size_t(3 * epoch);
    CHECK(tokens[at] == 4 * 15);
    CHECK(tokens[at + 1] == 4 * 15);
    CHECK(tokens[at + 2] == 2 * 15);
    CHECK(epochs[at + 2] == epoch + 1);
  }
}

// The scale and its counters go on too.
TEST_CASE("fault: float16 goes on with its loss scale, and steps it has skipped don't count as updates") {
  const FaultDesk desk;
  const auto train = [&desk](const std::string& folder, int steps) {
    desk.good(kTwo,
              {"model.dtype=float16", "precision.loss_scale_init=1073741824", "precision.loss_scale_window=3",
               "lr_schedule.warmup_steps=2", "precision.loss_scale_hysteresis=2", "run.output_dir=" + folder,
               cat("train.max_steps=", steps), "train.eval_every=0", "data.validation=null"});
  };
  for (const int stop : {2, 5, 9, 20}) train("out", stop);
  train("straight", 20);
  CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
  CHECK((desk.weights("out") == desk.weights("straight")));
  std::int64_t skipped = 0;
  std::set<double> scales;
  for (const nlohmann::json& line : json_lines(desk.read("out/metrics.jsonl"))) {
    skipped += line["skipped"] == true ? 1 : 0;
    scales.insert(line["loss_scale"].get<double>());
  }
  CHECK(skipped > 2);
  CHECK(skipped < 20);
  CHECK(scales.size() > 3);
  const auto last = checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", 20));
  CHECK(last.state().updates == 20 - skipped);
  CHECK(last.state().step == 20);
}

}  // namespace zt::test
