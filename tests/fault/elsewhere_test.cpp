// Checkpoints go on on other numbers of ranks, at other stages, in other dtypes.
#include <cmath>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Kind;

struct Life {
  Way way;
  int stage;
  const char* dtype = "float32";
  std::string name() const { return cat(way.name(), ", stage ", stage, ", ", dtype); }
};

Words sets_of(const Life& life, const Words& more) {
  Words sets = {cat("zero.stage=", life.stage), cat("model.dtype=", life.dtype), "train.eval_every=0",
                "train.global_batch_size=24"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<float> whole(const Checkpoint& from, const std::string& tensor, Kind kind) {
  std::int64_t elements = 1;
  for (const std::int64_t n : from.manifest().tensors.at(tensor).shape) elements *= n;
  std::vector<float> values(static_cast<std::size_t>(elements));
  from.read(tensor, kind, 0, values);
  return values;
}

// Every element of every tensor, and where the run stands.
void check_same(const Checkpoint& a, const Checkpoint& b) {
  REQUIRE(a.manifest().tensors.size() == b.manifest().tensors.size());
  for (const auto& [name, tensor] : a.manifest().tensors) {
    CAPTURE(name);
    REQUIRE(b.manifest().tensors.contains(name));
    for (const Kind kind : checkpoint::kKinds) {
      REQUIRE(tensor.of(kind).empty() == b.manifest().tensors.at(name).of(kind).empty());
      if (!tensor.of(kind).empty()) CHECK(whole(a, name, kind) == whole(b, name, kind));
    }
  }
  CHECK(a.state().step == b.state().step);
  CHECK(a.state().updates == b.state().updates);
  CHECK(a.state().samples == b.state().samples);
}

// The signal is answered before the first step: sent as soon as the state is loaded; the rate of products is measured
// after that.
bool stop_before_first_step(const FaultDesk& desk, const Life& life, const Words& sets, const Words& more) {
  const pid_t run = desk.begin(life.way, sets, more);
  REQUIRE(desk.wait_for(".err1", "going on after step 4"));
  FaultDesk::signal_one(life.way, run, SIGTERM);
  const Outcome o = desk.finish(run, 60);
  REQUIRE_MESSAGE(o.status == 75, end_of(o.err));
  return contains(o.err, "ended the run after step 4 ");
}

void check_saved_again_unchanged(const FaultDesk& desk, const Life& life, const std::string& from) {
  for (int attempt = 1; attempt <= 5; ++attempt) {
    const std::string folder = cat("again", attempt);
    const bool in_time = stop_before_first_step(
        desk, life, sets_of(life, {"train.max_steps=1000000", "run.output_dir=" + folder}),
        {"--resume", from});
    if (in_time)
      check_same(Checkpoint::open(desk.path() / from),
                 Checkpoint::open(desk.path() / FaultDesk::step_folder(folder, 4)));
    fs::remove_all(desk.path() / folder);
    if (in_time) return;
  }
  FAIL("no signal arrived before the first step");
}

// Four steps in each life, in one folder. `tolerance` is of the first step after each change.
void check_chain(const std::vector<Life>& lives, double tolerance) {
  const FaultDesk desk;
  desk.good(kAlone,
            sets_of({kAlone, 0}, {"run.output_dir=straight", cat("train.max_steps=", 4 * lives.size())}));
  const auto straight = desk.field("straight", "loss"), hashes = desk.field("straight", "batch_hash");
  for (std::size_t i = 0; i < lives.size(); ++i) {
    INFO(lives[i].name());
    desk.good(lives[i].way, sets_of(lives[i], {cat("train.max_steps=", 4 * (i + 1))}));
    const double here = desk.field("out", "loss").at(4 * i), there = straight.at(4 * i);
    CHECK(std::abs(here - there) <= tolerance * there);
  }
  CHECK(desk.field("out", "batch_hash") == hashes);
}

}  // namespace

TEST_CASE("fault: 8, 3 and 1 ranks, and stages 3, 1, 2, 0, take over from each other within 1e-6") {
  check_chain({{Way{8, false}, 3}, {Way{3, false}, 1}, {kAlone, 0}}, 1e-6);
  check_chain({{kTwoLaunched, 3}, {Way{4, false}, 1}, {Way{3, true}, 2}, {kAlone, 0}, {Way{8, false}, 3}},
              1e-6);
}

TEST_CASE("fault: a run changes its dtype and back; half precision costs no more than its rounding") {
  check_chain({{kTwo, 3}, {kTwo, 1, "bfloat16"}, {Way{3, false}, 2}, {kAlone, 0, "float16"}, {kTwo, 3}},
              2e-2);
}

TEST_CASE("fault: what was loaded is what was saved, element for element, on any ranks, stage and dtype") {
  const FaultDesk desk;
  const Life first{Way{8, false}, 3};
  desk.good(first.way, sets_of(first, {"train.max_steps=4", "run.output_dir=first"}));
  const std::string from = FaultDesk::step_folder("first", 4);
  for (const Life& life :
       {Life{Way{3, false}, 1}, Life{kAlone, 0}, Life{kTwoLaunched, 2}, Life{Way{4, false}, 3}, Life{kTwo, 0},
        Life{kTwo, 3, "bfloat16"}, Life{kAlone, 0, "float16"}}) {
    INFO(life.name());
    check_saved_again_unchanged(desk, life, from);
  }
}

}  // namespace zt::test
