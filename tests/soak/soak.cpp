// A run under faults for hours: ranks are killed and stopped, signals come, the disk gets full, time limits pass; after
// each the run goes on, with other numbers of ranks, stages, launchers and saves. At its end two runs that nothing disturbs
// are made. One changes its number of ranks and its stage where the first one did: its metrics and weights must be the same to the last bit.
// One is straight, on one rank: it must have the same rows in every step, and the same loss curve. Nothing may be left behind.
// Usage: soak SECONDS [SEED [LOG]]; environment as for the other tests (CTest sets it); scripts/soak runs it.
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <set>

#define DOCTEST_CONFIG_IMPLEMENT
#include "checkpoint/step_folders.h"
#include "fault/fault_desk.h"
#include "soak/odd_files.h"

namespace zt::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The longest a job may take to end after a fault.
constexpr double kEndsWithin = 60;
// A life's steps may come so late where other programs want the cores.
constexpr double kStartsWithin = 300;
// For runs that have one, in seconds: room for a start on a busy machine.
constexpr int kTimeLimit = 15;
// After the launcher has gone.
constexpr double kRemnantsEndWithin = 20;
// Ranks that give no sign of life are noticed after so long: mostly earlier than by default, to have more faults in the time.
constexpr int kShortSilence = 6, kDefaultSilence = 30;
constexpr std::int64_t kForever = 1'000'000'000;
// Sums over other numbers of ranks are rounded otherwise, and training carries that on. So the curve of the straight run
// is compared by means over so many steps, relative to it.
constexpr std::size_t kSmoothed = 100;
constexpr double kCurveTolerance = 1e-3;
// At most so many steps between a start and the fault.
constexpr std::int64_t kStepsOfALife = 120;
// One life in so many is ended by its time limit: these train much longer than others.
constexpr int kTimeLimitsInLives = 40;

const std::string kRecipe = R"(run: {output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}
  dropout: 0.1
tokenizer: {type: byte}
data:
  sequence_length: 64
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {micro_batch_size: 1, global_batch_size: 12, eval_every: 100}
optimizer: {learning_rate: 5e-4, eps: 1e-3, weight_decay: 0}
lr_schedule: {name: cosine, warmup_steps: 20, decay_steps: 1000, min_lr_ratio: 0.05}
logging: {progress: none}
)";

bool is_running(pid_t child) {
  siginfo_t ended = {};
  return ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid != child;
}

struct Leg {
  Way way;
  Words sets;
  std::string text() const {
    std::string all = way.name();
    for (const std::string& set : sets) all += " " + set;
    return all;
  }
};

struct Ended {
  int status = 0;
  double seconds = 0;  // from the fault to the end
  std::string err;
};

class Soak {
 public:
  Soak(double seconds, unsigned seed, const std::string& log)
      : seconds_(seconds), random_(seed), log_(log.empty() ? nullptr : std::fopen(log.c_str(), "w")) {
    say(cat("soak of ", seconds, " s, seed ", seed));
  }
  ~Soak() {
    if (disk_) ::umount2(disk_path().c_str(), MNT_DETACH);
    if (log_ != nullptr) std::fclose(log_);
  }
  int run();

 private:
  using Fault = std::function<std::string(const Leg&, pid_t)>;
  struct Kind {
    const char* name;
    std::set<int> statuses;  // with which a job may end then
    Fault fault;             // does it, and says to whom
    Words sets = {};
  };

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  void say(const std::string& line) {
    const std::string text = fmt::format("{:7.1f} s  {}\n", seconds_since(begin_), line);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (log_ != nullptr) std::fputs(text.c_str(), log_), std::fflush(log_);
  }
  void wrong(const std::string& what) {
    ++faults_found_;
    say("WRONG: " + what);
  }
  std::int64_t last_step() const;
  bool wait_for_step(std::int64_t step, pid_t run) const;
  fs::path disk_path() const { return desk_.path() / "out"; }
  void mount_disk();
  Leg any_leg();
  std::vector<Kind> kinds();
  void leg(const Kind& kind);
  std::string signal_somebody(const Leg& leg, pid_t run, int signal);
  std::string fill_disk();
  Ended wait_for_end(pid_t run, Clock::time_point fault);
  void check_nothing_runs();
  void check_after(const Kind& kind, const Ended& ended, bool early);
  void note_life(const Leg& leg, const std::string& err);
  void finish();
  void replay();
  void run_straight();
  void compare_replayed();
  void compare_straight();

  FaultDesk desk_;
  double seconds_;
  std::mt19937_64 random_;
  std::FILE* log_;
  Clock::time_point begin_ = Clock::now();
  bool disk_ = false;
  int number_ = 0, faults_found_ = 0;
  // From which step on the run had how many ranks, at which stage: what the replay follows.
  struct Life {
    std::int64_t from = 0;
    int ranks = 1;
    std::string stage;
  };
  std::vector<Life> lives_;
  std::int64_t step_ = 0;
  std::map<std::string, int> counts_;
  std::map<std::string, double> longest_;
};

// Everything the run leaves lies on a file system of its own, so that it can get full without harm to others.
void Soak::mount_disk() {
  fs::create_directories(disk_path());
  disk_ = ::geteuid() == 0 && ::mount("soak", disk_path().c_str(), "tmpfs", 0, "size=512m") == 0;
  if (!disk_) say("not root: the disk is not filled");
}

// Of the last whole line about a step; the file grows to many megabytes, so only its end is read.
std::int64_t Soak::last_step() const {
  constexpr std::streamoff kTail = 8192;
  std::ifstream in(disk_path() / "metrics.jsonl", std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (!in || size <= 0) return 0;
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::int64_t step = 0;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("loss")) step = json["step"];
  }
  return step;
}

// False when the job ends before, or takes too long.
bool Soak::wait_for_step(std::int64_t step, pid_t run) const {
  const auto begin = Clock::now();
  while (seconds_since(begin) < kStartsWithin) {
    if (last_step() >= step) return true;
    if (!is_running(run)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Leg Soak::any_leg() {
  static const Way ways[] = {{1, false}, {2, false}, {3, false}, {1, true}, {2, true}, {3, true}, {4, true}};
  Leg leg;
  leg.way = ways[below(std::size(ways))];
  leg.sets = {cat("zero.stage=", below(4)), cat("checkpoint.async=", below(2) == 0 ? "true" : "false"),
              cat("comm.lanes=", below(3) == 0 ? "inline" : "threads"),
              cat("checkpoint.every_steps=", 5 + below(30)), cat("train.max_steps=", kForever)};
  if (leg.way.ranks == 4) leg.sets.push_back("zero.prefetch=2");
  return leg;
}

std::string Soak::signal_somebody(const Leg& leg, pid_t run, int signal) {
  const std::vector<pid_t> all = FaultDesk::processes(leg.way, run);
  const auto rank = below(static_cast<std::int64_t>(all.size()));
  ::kill(all[static_cast<std::size_t>(rank)], signal);
  return cat("to process ", rank + 1, " of ", all.size());
}

// Takes all space but some KiB: the next save, or the next metrics line but a few, finds none.
std::string Soak::fill_disk() {
  struct statvfs now = {};
  ::statvfs(disk_path().c_str(), &now);
  const std::int64_t keep = below(64) * 1024;
  const std::int64_t take = static_cast<std::int64_t>(now.f_bavail * now.f_frsize) - keep;
  const int file = ::open((disk_path() / "filler").c_str(), O_CREAT | O_WRONLY, 0644);
  const off_t end = ::lseek(file, 0, SEEK_END);
  if (take > 0) (void)!::posix_fallocate(file, end, take);
  ::close(file);
  return cat("but for ", keep / 1024, " KiB");
}

std::vector<Soak::Kind> Soak::kinds() {
  const auto signal = [this](int number) {
    return [this, number](const Leg& leg, pid_t run) { return signal_somebody(leg, run, number); };
  };
  const auto kill_all = [this](const Leg& leg, pid_t run) {
    for (const pid_t process : FaultDesk::processes(leg.way, run)) ::kill(process, SIGKILL);
    ::kill(run, SIGKILL);
    return std::string("all and the launcher");
  };
  // A rank killed by a signal ends its launcher with that signal's status; others may see it first.
  const std::set<int> killed = {128 + SIGKILL, 6, 1};
  std::vector<Kind> all = {
      {"kill", killed, signal(SIGKILL)},
      {"kill all", {128 + SIGKILL}, kill_all},
      {"kill the launcher",
       {128 + SIGKILL},
       [](const Leg&, pid_t run) {
         ::kill(run, SIGKILL);
         return std::string();
       }},
      {"stop", {6, 128 + SIGKILL, 128 + SIGTERM}, signal(SIGSTOP)},
      {"SIGTERM", {75}, signal(SIGTERM)},
      {"SIGUSR1", {75}, signal(SIGUSR1)},
      {"SIGINT", {75}, signal(SIGINT)},
      {"time limit",
       {75},
       [](const Leg&, pid_t) { return std::string(); },
       {cat("run.time_limit=", kTimeLimit)}},
      {"save-now, then kill all", {128 + SIGKILL}, [this, kill_all](const Leg& leg, pid_t run) {
         desk_.write("out/save-now", "");
         std::this_thread::sleep_for(std::chrono::milliseconds(below(60)));
         return kill_all(leg, run);
       }}};
  if (disk_)
    all.push_back({"full disk", {7}, [this](const Leg&, pid_t run) {
                     const std::string how = fill_disk();
                     // What retention frees is taken too, until the run ends.
                     for (int i = 0; i < kEndsWithin * 10 && is_running(run); ++i) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(100));
                       fill_disk();
                     }
                     return how;
                   }});
  return all;
}

Ended Soak::wait_for_end(pid_t run, Clock::time_point fault) {
  const Outcome o = desk_.finish(run, kEndsWithin);
  if (o.status == -1) wrong(cat("the job had to be ended after ", kEndsWithin, " s:\n", end_of(o.err)));
  return {o.status, seconds_since(fault), o.err};
}

void Soak::check_nothing_runs() {
  const std::string left = desk_.survivors(kRemnantsEndWithin);
  if (!left.empty()) wrong(cat("left running: ", left));
}

void Soak::leg(const Kind& kind) {
  Leg leg = any_leg();
  // A stopped process on its own, or of virtual ranks, is stopped as a whole: nothing is left to notice it.
  while (std::string(kind.name) == "stop" && (!leg.way.launched || leg.way.ranks == 1)) leg = any_leg();
  leg.sets.push_back(cat("comm.silence_seconds=", below(4) == 0 ? kDefaultSilence : kShortSilence));
  leg.sets.insert(leg.sets.end(), kind.sets.begin(), kind.sets.end());
  ++number_;
  const std::int64_t before = step_;
  const pid_t run = desk_.begin(leg.way, leg.sets);
  // Mostly while it trains; sometimes at once, while it starts, reads and resumes.
  const bool early = below(8) == 0;
  bool trains = true;
  if (early) {
    std::this_thread::sleep_for(std::chrono::milliseconds(below(1500)));
  } else {
    trains = wait_for_step(before + 5 + below(kStepsOfALife), run);
    std::this_thread::sleep_for(std::chrono::milliseconds(below(30)));
  }
  const auto fault = Clock::now();
  std::string whom;
  try {
    whom = kind.fault(leg, run);
  } catch (const std::exception& e) {
    whom = cat("not done: ", e.what());
  }
  const Ended ended = wait_for_end(run, fault);
  check_nothing_runs();  // ranks without a launcher go on for a moment
  std::error_code none;
  fs::remove(disk_path() / "filler", none);
  note_life(leg, ended.err);
  step_ = last_step();
  if (!trains && std::string(kind.name) != "time limit")
    wrong(cat("the run got no further than step ", step_, ":\n", end_of(ended.err)));
  say(fmt::format("{:3}  {:<24} {:<24} status {:3}  {:5.1f} s  steps {} to {}{}  [{}]", number_, kind.name,
                  whom, ended.status, ended.seconds, before, step_, early ? " (early)" : "", leg.text()));
  ++counts_[kind.name];
  longest_[kind.name] = std::max(longest_[kind.name], ended.seconds);
  check_after(kind, ended, early);
}

// A fault before the program listens to signals ends it as any program.
void Soak::check_after(const Kind& kind, const Ended& ended, bool early) {
  const bool limit = std::string(kind.name) == "time limit";
  if (early ? ended.status == 0 : !kind.statuses.contains(ended.status))
    wrong(cat("status ", ended.status, ":\n", end_of(ended.err)));
  if (ended.seconds > (limit ? kTimeLimit : kEndsWithin)) wrong(cat("it took ", ended.seconds, " s to end"));
  if (ended.status == 6 && count(ended.err, "error: ") != 1)
    wrong(cat("the cause is said ", count(ended.err, "error: "), " times:\n", end_of(ended.err)));
  check_nothing_runs();
  for (const checkpoint::Listed& listed : desk_.checkpoints("out")) {
    const auto named = checkpoint::parse_step_folder(listed.folder);
    if (!listed.good() && named && named->phase == checkpoint::Phase::whole)
      wrong(cat(listed.folder.string(), ": ", listed.fault));
  }
}

// What a life trained counts until the next one's start.
void Soak::note_life(const Leg& leg, const std::string& err) {
  const std::string words = "going on after step ";
  const std::size_t at = err.find(words);
  const bool afresh = contains(err, " steps of 12 rows") && at == std::string::npos;
  if (at == std::string::npos && !afresh) return;  // it had not begun
  const std::int64_t from = afresh ? 0 : std::stoll(err.substr(at + words.size()));
  std::erase_if(lives_, [&](const Life& life) { return life.from >= from; });
  lives_.push_back({from, leg.way.ranks, leg.sets[0]});
}

// The last life ends by itself.
void Soak::finish() {
  const Leg leg{kTwoLaunched,
                {"zero.stage=3", cat("train.max_steps=", last_step() + 20), "checkpoint.every_steps=10"}};
  const Outcome last = desk_.finish(desk_.begin(leg.way, leg.sets), 600);
  if (last.status != 0) wrong(cat("the last life ended with ", last.status, ":\n", end_of(last.err)));
  note_life(leg, last.err);
  step_ = last_step();
}

void Soak::replay() {
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    const bool last = i + 1 == lives_.size();
    if (!last && lives_[i + 1].ranks == lives_[i].ranks && lives_[i + 1].stage == lives_[i].stage) continue;
    const std::int64_t until = last ? step_ : lives_[i + 1].from;
    const Words sets = {lives_[i].stage, cat("train.max_steps=", until), "checkpoint.every_steps=1000000",
                        "checkpoint.export=at_end", "run.output_dir=replayed"};
    const Outcome o = desk_.finish(desk_.begin({lives_[i].ranks, false}, sets), seconds_ + 600);
    if (o.status != 0) return wrong(cat("the replay ended with ", o.status, ":\n", end_of(o.err)));
  }
}

void Soak::run_straight() {
  const Outcome o = desk_.finish(
      desk_.begin(kAlone,
                  {cat("train.max_steps=", step_), "run.output_dir=straight", "checkpoint.every_steps=null"}),
      seconds_ + 600);
  if (o.status != 0) wrong(cat("the straight run ended with ", o.status, ":\n", end_of(o.err)));
}

// The lines about steps without what the system measures and what differs between saves and transports.
static std::vector<std::string> trained(const FaultDesk& desk, const std::string& folder) {
  std::vector<std::string> lines;
  std::ifstream in(desk.path() / folder / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("loss")) continue;
    nlohmann::json kept;
    for (const char* const field : {"step", "epoch", "loss", "supervised_tokens", "tokens", "slots",
                                    "learning_rate", "grad_norm", "loss_scale", "skipped", "batch_hash"})
      kept[field] = json[field];
    lines.push_back(kept.dump());
  }
  return lines;
}

void Soak::compare_replayed() {
  const auto lines = trained(desk_, "out"), same = trained(desk_, "replayed");
  if (lines.size() != static_cast<std::size_t>(step_))
    wrong(cat(lines.size(), " lines for ", step_, " steps"));
  for (std::size_t i = 0; i < std::max(lines.size(), same.size()); ++i) {
    const std::string a = i < lines.size() ? lines[i] : "(none)", b = i < same.size() ? same[i] : "(none)";
    if (a == b) continue;
    wrong(cat("the replay differs first in line ", i + 1, ":\n  ", a, "\n  ", b));
    break;
  }
  if (desk_.weights("out") != desk_.weights("replayed")) wrong("the weights are not those of the replay");
  say(cat(lines.size(), " steps compared with the replay to the last bit, and the weights"));
}

void Soak::compare_straight() {
  const auto steps = desk_.field("out", "batch_hash"), straight = desk_.field("straight", "batch_hash");
  if (steps != straight) wrong("the rows of the steps are not those of the straight run");
  const auto losses = desk_.field("out", "loss"), plain = desk_.field("straight", "loss");
  double worst = 0;
  for (std::size_t i = 0; i + kSmoothed <= std::min(losses.size(), plain.size()); i += kSmoothed) {
    double a = 0, b = 0;
    for (std::size_t j = i; j < i + kSmoothed; ++j) a += losses[j].get<double>(), b += plain[j].get<double>();
    worst = std::max(worst, std::abs(a - b) / b);
  }
  if (losses.size() != plain.size() || worst > kCurveTolerance)
    wrong(cat("losses of ", losses.size(), " and ", plain.size(), " steps, up to ", worst, " apart"));
  say(fmt::format(
      "the straight run has the same rows in each of {} steps; means of {} losses differ by at most {:.2g} "
      "(relative), the last losses are {:.6f} and {:.6f}",
      steps.size(), kSmoothed, worst, losses.back().get<double>(), plain.back().get<double>()));
}

int Soak::run() {
  desk_.write("recipe.yaml", kRecipe);
  mount_disk();
  const std::vector<Kind> all = kinds();
  const auto limit = std::ranges::find(all, std::string("time limit"), &Kind::name);
  while (seconds_since(begin_) < seconds_) {
    const Kind* kind = &*limit;
    while (below(kTimeLimitsInLives) != 0 && kind == &*limit)
      kind = &all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
    leg(*kind);
  }
  finish();
  say(cat(number_, " faults in ", static_cast<std::int64_t>(seconds_since(begin_)),
          " s; now the undisturbed runs"));
  replay();
  run_straight();
  compare_replayed();
  compare_straight();
  check_nothing_runs();
  for (const std::string& file : odd_files_in(disk_path())) wrong(file + " is left");
  for (const auto& [name, count] : counts_)
    say(fmt::format("{:4} x {:<26} ended within {:.1f} s", count, name, longest_[name]));
  say(cat(number_, " faults, ", faults_found_, " things wrong"));
  return faults_found_ == 0 ? 0 : 1;
}

}  // namespace
}  // namespace zt::test

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: soak SECONDS [SEED [LOG]]\n", stderr);
    return 2;
  }
  try {
    zt::test::Soak soak(std::stod(argv[1]), argc > 2 ? static_cast<unsigned>(std::stoul(argv[2])) : 1U,
                        argc > 3 ? argv[3] : "");
    return soak.run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "soak: %s\n", e.what());
    return 1;
  }
}
