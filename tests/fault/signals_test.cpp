// A stop signal to any one rank, over every transport, at every moment of a run's life: all ranks end together, with a
// good checkpoint, and the run goes on as if nothing had been. Pairs of these are covered, not their product.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "fault/fault_desk.h"
#include "fault/mount.h"

namespace zt::test {
namespace {

using Patience = std::chrono::milliseconds;

// Where a run stands when the signal comes. Slow disks and long evaluations make moments last.
enum class Moment {
  preparing,
  first_evaluation,
  evaluating,
  training,
  saving_beside,
  saving_in_step,
  exporting
};
constexpr int kMoments = int(Moment::exporting) + 1;

struct Stage {
  const char* name;
  Words sets;
  const char* slow_files;  // what the disk takes so long to sync; "": nothing
};
const std::string kHeldOut = "data.validation=[{path: held.txt}]";
const std::array<Stage, kMoments> kStages = {{
    {"while data are prepared", {}, ".tokens"},
    {"in the first evaluation", {kHeldOut, "train.eval_every=4"}, ""},
    {"in a later evaluation", {kHeldOut, "train.eval_every=4"}, ""},
    {"while it trains", {"checkpoint.every_steps=1000000"}, ""},
    {"while it saves beside training", {"checkpoint.async=true"}, "step-00000004.partial/rank-"},
    {"while it saves between steps", {"checkpoint.async=false"}, "step-00000004.partial/rank-"},
    {"while it exports", {"train.max_steps=4"}, "export.partial"},
}};
bool evaluates(Moment m) { return m == Moment::first_evaluation || m == Moment::evaluating; }

enum class Transport { alone, threads, windows, messages };
constexpr int kTransports = 4;
constexpr const char* kTransportNames[] = {"alone", "virtual ranks", "windows", "messages"};
bool has_processes(Transport t) { return t >= Transport::windows; }

struct Signal {
  int number;
  const char* name;
};
constexpr std::array<Signal, 3> kSignals = {{{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGINT, "SIGINT"}}};

struct Case {
  Signal signal = kSignals[0];
  int rank = 0;  // 0, 1, 2: the first, a middle one, the last
  Transport transport = Transport::alone;
  Moment moment = Moment::training;
  std::string name() const {
    return cat(signal.name, " to rank ", rank, ", ", kTransportNames[int(transport)], ", ",
               kStages[std::size_t(moment)].name);
  }
};

// Every pair of values of two of: signal, rank (where ranks are processes), transport, moment. Chosen greedily, each
// case being the best of some random ones.
std::vector<Case> pairs(std::mt19937& random) {
  std::set<std::array<int, 4>> left;
  const auto pairs_of = [](const Case& c) {
    const int signal = int(std::ranges::find(kSignals, c.signal.number, &Signal::number) - kSignals.begin());
    const std::array<int, 4> values = {signal, has_processes(c.transport) ? c.rank : 0, int(c.transport),
                                       int(c.moment)};
    std::vector<std::array<int, 4>> out;
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b)
        if (has_processes(c.transport) || (a != 1 && b != 1))
          out.push_back({a, values[std::size_t(a)], b, values[std::size_t(b)]});
    return out;
  };
  std::vector<Case> all, chosen;
  for (const Signal& signal : kSignals)
    for (int rank = 0; rank < 3; ++rank)
      for (int transport = 0; transport < kTransports; ++transport)
        for (int moment = 0; moment < kMoments; ++moment)
          all.push_back({signal, rank, Transport(transport), Moment(moment)});
  for (const Case& c : all)
    for (const auto& pair : pairs_of(c)) left.insert(pair);
  while (!left.empty()) {
    std::ranges::shuffle(all, random);
    const auto gain = [&](const Case& c) {
      return std::ranges::count_if(pairs_of(c), [&](const auto& pair) { return left.contains(pair); });
    };
    chosen.push_back(*std::ranges::max_element(all, {}, gain));
    for (const auto& pair : pairs_of(chosen.back())) left.erase(pair);
  }
  return chosen;
}

// What does not hold, as text: cases run beside each other, and doctest reports of one thread.
class Faults {
 public:
  // Whether it holds.
  bool expect(bool holds, const std::string& what) {
    if (!holds) text_ += cat(text_.empty() ? "" : "; ", "not so: ", what);
    return holds;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Does work(i) for i below count, three at a time: most of the time they wait for slow disks.
template <typename Work>
void side_by_side(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (std::size_t i; (i = next++) < count;) work(i);
    });
  for (std::thread& thread : threads) thread.join();
}

// Shared memory that is too small for windows.
class Transports {
 public:
  Transports() : small_(scratch_.path() / "shm", 64), messages_(small_.made()) {}
  bool possible(Transport t) const { return t != Transport::messages || messages_; }
  // `slow_files` take `seconds` to sync.
  Way way(Transport t, const std::string& slow_files = "", int seconds = 1) const {
    Way way{t == Transport::alone ? 1 : 3, has_processes(t)};
    if (t == Transport::messages)
      way.environment.push_back(
          cat("OMPI_MCA_osc_sm_backing_directory=", (scratch_.path() / "shm").string()));
    const char* const library = std::getenv("ZEROTRAIN_FAULTY_DISK");
    if (library == nullptr) throw std::runtime_error("ZEROTRAIN_FAULTY_DISK does not name the library");
    if (slow_files.empty()) return way;
    way.environment.push_back(cat("LD_PRELOAD=", library));
    way.environment.push_back(cat("ZEROTRAIN_TEST_DISK=fsync ", slow_files, " -", seconds, " 0"));
    return way;
  }

 private:
  ScratchDir scratch_;
  Mount small_;
  bool messages_;
};

// One rank alone evaluates much faster than three that share its cores.
void write_texts(const FaultDesk& desk, Transport transport) {
  desk.write("more.txt", FaultDesk::lines_of_text(50));
  desk.write("held.txt", FaultDesk::lines_of_text(transport == Transport::alone ? 1500 : 150));
}

Words sets_at(Moment moment, const Words& more = {}) {
  Words sets = {"data.train=[{path: text.txt}, {path: more.txt}]", "data.validation=null",
                "train.eval_every=0", "train.max_steps=1000000"};
  const Words& own = kStages[std::size_t(moment)].sets;
  sets.insert(sets.end(), own.begin(), own.end());
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

template <typename Ready>
bool wait_until(const Ready& ready) {
  for (int i = 0; i < 15000; ++i) {
    if (ready()) return true;
    std::this_thread::sleep_for(Patience(2));
  }
  return false;
}

bool tokenizes(const FaultDesk& desk) {
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(desk.path() / "cache", failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->path().extension() == ".partial") return true;
  return false;
}

bool wait_for(Moment moment, const FaultDesk& desk) {
  switch (moment) {
    case Moment::preparing: return wait_until([&] { return tokenizes(desk); });
    case Moment::first_evaluation:
      return wait_until([&] {
        return desk.has("out/events.jsonl") && contains(desk.read("out/events.jsonl"), "\"start\"");
      });
    case Moment::evaluating: return desk.wait_for_step("out", 4);
    case Moment::training: return desk.wait_for_step("out", 5);
    case Moment::saving_beside:
    case Moment::saving_in_step:
      return wait_until([&] { return desk.has(FaultDesk::step_folder("out", 4) + ".partial"); });
    case Moment::exporting: return wait_until([&] { return desk.has("out/export.partial"); });
  }
  return false;
}

struct Line {
  nlohmann::json loss, grad_norm, batch_hash;
  friend bool operator==(const Line&, const Line&) = default;
};

// What a run has measured, by step.
struct Lines {
  std::map<std::int64_t, Line> steps;
  std::map<std::int64_t, nlohmann::json> evaluations;
};

Lines lines_of(const FaultDesk& desk, const std::string& folder) {
  Lines lines;
  for (const nlohmann::json& json : json_lines(desk.read(folder + "/metrics.jsonl"))) {
    if (json.contains("loss"))
      lines.steps[json["step"]] = {json["loss"], json["grad_norm"], json["batch_hash"]};
    else
      lines.evaluations[json["step"]] = json["eval_loss"];
  }
  return lines;
}

// Whether a part of a run is the same as the straight one as far as both go.
template <typename Map>
bool begins_alike(const Map& part, const Map& straight) {
  return std::ranges::all_of(part, [&](const auto& entry) {
    const auto other = straight.find(entry.first);
    return other == straight.end() || other->second == entry.second;
  });
}

// Runs without a signal, one for each transport, with and without evaluations; long enough for who asks.
class Straight {
 public:
  Lines lines(const Case& c, const Transports& transports, std::int64_t steps) {
    const auto key = std::size_t(2 * int(c.transport) + int(evaluates(c.moment)));
    const std::lock_guard lock(locks_[key]);
    Lines& lines = lines_[key];
    if (std::int64_t(lines.steps.size()) >= steps) return lines;
    const FaultDesk desk;
    write_texts(desk, c.transport);
    const auto enough = evaluates(c.moment) ? steps : std::max<std::int64_t>(steps, 40);
    const Outcome o =
        desk.train(transports.way(c.transport), sets_at(c.moment, {cat("train.max_steps=", enough)}));
    if (o.status != 0) throw std::runtime_error(cat("a straight run: ", end_of(o.err)));
    return lines = lines_of(desk, "out");
  }

 private:
  std::array<std::mutex, 2 * kTransports> locks_;
  std::array<Lines, 2 * kTransports> lines_;
};

// The stopped run goes on from where it was.
void check_goes_on(const FaultDesk& desk, const Transports& transports, Straight& straight, const Case& c,
                   Faults& faults) {
  const std::int64_t stopped = desk.last_step("out"), steps = std::max<std::int64_t>(stopped + 2, 6);
  const Outcome on =
      desk.train(transports.way(c.transport), sets_at(c.moment, {cat("train.max_steps=", steps)}));
  if (!faults.expect(on.status == 0, cat("it goes on: ", end_of(on.err)))) return;
  faults.expect(contains(on.err, cat("going on after step ", stopped)), "it goes on from its last step");
  const Lines ours = lines_of(desk, "out"), theirs = straight.lines(c, transports, steps);
  faults.expect(std::int64_t(ours.steps.size()) == steps, cat(steps, " steps are measured"));
  faults.expect(begins_alike(ours.steps, theirs.steps), "steps are those of a straight run");
  faults.expect(begins_alike(ours.evaluations, theirs.evaluations),
                "evaluations are those of a straight run");
  faults.expect(ours.evaluations.empty() != evaluates(c.moment), "it has evaluated");
}

// All ranks have saved the last step.
void check_saved(const FaultDesk& desk, const Outcome& o, const Case& c, const std::string& who,
                 Faults& faults) {
  const std::vector<std::int64_t> saved = desk.steps("out");
  const std::int64_t stopped = desk.last_step("out");
  faults.expect(
      count(o.err, "ended the run") == 1 &&
          contains(o.err, cat(who, " ended the run after step ", stopped, " of 1000000; it goes on")),
      cat("'", who, " ended the run after step ", stopped, "' is said, once"));
  if (c.moment == Moment::first_evaluation)
    faults.expect(stopped == 0, cat("it stops before the first step, not after ", stopped));
  if (c.moment == Moment::evaluating)
    faults.expect(stopped == 4, cat("it stops after step 4, not ", stopped));
  if (!faults.expect(!saved.empty() && saved.back() == stopped, cat("step ", stopped, " is saved"))) return;
  const auto last = checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", stopped));
  faults.expect(last.verify().empty(), "the checkpoint is good");
  faults.expect(last.state().ranks == (c.transport == Transport::alone ? 1 : 3), "all ranks have saved");
  faults.expect(!desk.has_partial("out"), "no save is left unfinished");
  faults.expect(!desk.has("out/export"), "nothing is exported");
}

std::string go_through(const Case& c, const Transports& transports, Straight& straight) {
  Faults faults;
  const FaultDesk desk;
  write_texts(desk, c.transport);
  const Stage& stage = kStages[std::size_t(c.moment)];
  const Way way = transports.way(c.transport, stage.slow_files), fast = transports.way(c.transport);
  const pid_t run = desk.begin(way, sets_at(c.moment));
  const bool came = wait_for(c.moment, desk);
  // An evaluation on an idle machine is over soon; any time since the step before it counts as during it.
  if (!evaluates(c.moment)) std::this_thread::sleep_for(Patience(50));
  const std::vector<pid_t> processes = FaultDesk::processes(way, run);
  ::kill(processes[has_processes(c.transport) ? std::size_t(c.rank) : 0], c.signal.number);
  const Outcome o = desk.finish(run, 30);
  if (!faults.expect(came, cat("the moment comes: ", end_of(o.err)))) return faults.text();
  faults.expect(desk.survivors() == "", "no process is left");
  faults.expect(!contains(o.err, "error: "), cat("no error: ", end_of(o.err)));
  if (c.transport == Transport::messages && c.moment != Moment::preparing)
    faults.expect(contains(o.err, "mpi (messages)"), "ranks send messages");
  const std::string who =
      has_processes(c.transport) ? cat(c.signal.name, " (to rank ", c.rank, ")") : c.signal.name;
  if (c.moment == Moment::exporting) {  // nothing is left to save
    faults.expect(o.status == 0, cat("status 0, not ", o.status));
    faults.expect(count(o.err, "ended the run") == 0, "nothing ended the run");
    faults.expect(desk.has("out/export/model.safetensors"), "the model is exported");
    return faults.text();
  }
  faults.expect(o.status == 75, cat("status 75, not ", o.status, ": ", end_of(o.err)));
  if (c.moment == Moment::preparing) {
    faults.expect(count(o.err, "ended the run") == 1 &&
                      contains(o.err, who + " ended the run while its data were prepared"),
                  cat(who, " is named once: ", end_of(o.err)));
    faults.expect(!desk.has("out"), "no folder is left");
    const Outcome on = desk.train(fast, sets_at(c.moment, {"train.max_steps=6"}));
    faults.expect(on.status == 0, cat("it goes on: ", end_of(on.err)));
    return faults.text();
  }
  check_saved(desk, o, c, who, faults);
  check_goes_on(desk, transports, straight, c, faults);
  return faults.text();
}

// Leaves at once however long the disk takes, and everybody with it.
std::string leave_at_once(const Case& c, const Transports& transports) {
  Faults faults;
  const FaultDesk desk;
  write_texts(desk, c.transport);
  const Stage& stage = kStages[std::size_t(c.moment)];
  const Way way = transports.way(c.transport, stage.slow_files, 40), fast = transports.way(c.transport);
  const pid_t run = desk.begin(way, sets_at(c.moment));
  const bool came = wait_for(c.moment, desk);
  const std::vector<pid_t> processes = FaultDesk::processes(way, run);
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(Patience(100));
    ::kill(processes[has_processes(c.transport) ? std::size_t(c.rank) : 0], SIGINT);
  }
  const Outcome o = desk.finish(run, 30);
  if (!faults.expect(came, cat("the moment comes: ", end_of(o.err)))) return faults.text();
  faults.expect(o.status == 130, cat("status 130, not ", o.status, ": ", end_of(o.err)));
  faults.expect(o.seconds < 5, cat("at once, not after ", o.seconds, " s"));
  faults.expect(desk.survivors() == "", "no process is left");
  faults.expect(!contains(o.err, "error: "), cat("no error: ", end_of(o.err)));
  faults.expect(count(o.err, "Ctrl-C again ends at once") == 1, "the first says what a second does");
  for (const std::int64_t step : desk.steps("out"))
    faults.expect(
        checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", step)).verify().empty(),
        "checkpoints stay good");
  const Outcome on = desk.train(fast, sets_at(c.moment, {"train.max_steps=4"}));
  faults.expect(on.status == 0 && desk.has("out/export/model.safetensors"),
                cat("it goes on: ", end_of(on.err)));
  return faults.text();
}

template <typename Work>
void run_cases(const std::vector<Case>& cases, const Work& work) {
  const Transports transports;
  std::vector<std::string> faults(cases.size());
  side_by_side(cases.size(), [&](std::size_t i) {
    if (!transports.possible(cases[i].transport)) return;
    try {
      faults[i] = work(cases[i], transports);
    } catch (const std::exception& e) {
      faults[i] = e.what();
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].name());
    CHECK(faults[i] == "");
  }
}

}  // namespace

TEST_CASE(
    "fault: a stop signal to any rank, over any transport, at any moment ends all ranks at one step with a "
    "good "
    "checkpoint, and the run goes on as a straight one") {
  std::mt19937 random(75);
  const std::vector<Case> cases = pairs(random);
  MESSAGE(cases.size(), " cases cover all pairs");
  Straight straight;
  run_cases(cases, [&straight](const Case& c, const Transports& transports) {
    return go_through(c, transports, straight);
  });
}

TEST_CASE("fault: a second SIGINT to any rank ends the whole job at once, with status 130 and nothing left") {
  std::vector<Case> cases;
  int rank = 0;
  for (const Moment moment :
       {Moment::preparing, Moment::saving_beside, Moment::saving_in_step, Moment::exporting})
    for (int transport = 0; transport < kTransports; ++transport)
      if (has_processes(Transport(transport)) || int(moment) % 2 == transport)
        cases.push_back({{SIGINT, "SIGINT"},
                         has_processes(Transport(transport)) ? rank++ % 3 : 0,
                         Transport(transport),
                         moment});
  run_cases(cases, leave_at_once);
}

}  // namespace zt::test
