#include "report/run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "report/json_line.h"

namespace zt::report {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNames[] = {"loss",
                                  "learning_rate",
                                  "grad_norm",
                                  "loss_scale",
                                  "skipped",
                                  "step_seconds",
                                  "tokens_per_second",
                                  "mfu",
                                  "cost_imbalance",
                                  "exposed_comm_seconds",
                                  "peak_bytes",
                                  "planned_bytes",
                                  "planned_process_bytes",
                                  "process_peak_bytes",
                                  "eval_loss"};
static_assert(std::size(kNames) == kMeasures);

// Longer lines are no lines of ours.
constexpr std::size_t kLongestLine = 1 << 20;

// Calls `line` for every line of a file, of any length of file. `whole`: it ended in a newline, and was not too long.
template <typename Line>
void each_line(const fs::path& path, const Line& line) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Blame::machine, cat("cannot read ", path.string()), "may you read it?");
  std::vector<char> piece(1 << 20);
  std::string rest;
  bool too_long = false;
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0) {
    std::string_view text(piece.data(), static_cast<std::size_t>(in.gcount()));
    for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
      const std::string_view now = text.substr(0, end);
      if (rest.empty()) {
        line(now, !too_long);
      } else {
        rest += now;
        line(std::string_view(rest), !too_long);
      }
      rest.clear();
      too_long = false;
    }
    too_long = too_long || rest.size() + text.size() > kLongestLine;
    if (!too_long) rest += text;
  }
  if (!rest.empty() || too_long) line(std::string_view(rest), false);
}

// What one line says, put together before it counts: half a line says nothing.
class LineValues {
 public:
  void clear() { *this = LineValues(); }
  void set(std::string_view key, double value) {
    if (key == "step") {
      step = value;
    } else if (key == "tokens") {
      tokens = value;
    } else if (const int at = find(key); at >= 0) {
      values[static_cast<std::size_t>(at)] = value;
      there[static_cast<std::size_t>(at)] = true;
    }
  }
  double step = -1, tokens = 0;
  std::array<double, kMeasures> values{};
  std::array<bool, kMeasures> there{};

 private:
  // Keys come in the same order in every line.
  int find(std::string_view key) {
    for (int i = 0; i < kMeasures; ++i) {
      const int at = (next_ + i) % kMeasures;
      if (key == kNames[at]) return next_ = (at + 1) % kMeasures, at;
    }
    return -1;
  }
  int next_ = 0;
};

bool is_step(double value) { return value >= 0 && value < 0x1p53 && value == std::floor(value); }

void count_line(const LineValues& line, Run* run) {
  const auto step = static_cast<std::int64_t>(line.step);
  const auto at = [](Measure m) { return static_cast<std::size_t>(m); };
  for (std::size_t i = 0; i < kMeasures; ++i)
    if (line.there[i]) run->curves[i].add(step, line.values[i]);
  if (line.there[at(Measure::eval_loss)]) {
    ++run->evaluations;
    const double loss = line.values[at(Measure::eval_loss)];
    if (run->best_eval_step < 0 || loss < run->best_eval) run->best_eval = loss, run->best_eval_step = step;
    return;
  }
  ++run->steps_logged;
  if (std::isfinite(line.tokens)) run->tokens += line.tokens;
  const double seconds = line.values[at(Measure::step_seconds)];
  if (std::isfinite(seconds)) run->seconds += seconds;
}

void read_metrics(const fs::path& path, Run* run) {
  LineValues values;
  each_line(path, [&](std::string_view line, bool whole) {
    if (trim(line).empty()) return;
    values.clear();
    const bool good =
        whole && each_number(line, [&](std::string_view key, double value) { values.set(key, value); });
    if (!whole)
      run->half_a_line = true;
    else if (good && is_step(values.step))
      count_line(values, run);
    else
      ++run->broken_lines;
  });
}

void read_set_aside(Run* run) {
  for (int n = 1;; ++n) {
    const fs::path path = run->folder / cat("metrics.", n, ".jsonl");
    std::error_code none;
    if (!fs::is_regular_file(path, none)) return;
    Run other;
    read_metrics(path, &other);
    const Curve& loss = other.curve(Measure::loss);
    run->set_aside.push_back({path.filename(), other.steps_logged, loss.last_step(),
                              loss.empty() ? std::numeric_limits<double>::quiet_NaN() : loss.last()});
  }
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The first ones tell how it began; the last ones how it ended.
constexpr std::size_t kFirstEvents = 500, kLastEvents = 1500;

void read_events(Run* run) {
  std::int64_t broken = 0;
  each_line(run->folder / "events.jsonl", [&](std::string_view line, bool whole) {
    if (trim(line).empty() || !whole) return;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || text_of(json, "event").empty()) {
      ++broken;
      return;
    }
    const auto step = json.find("step");
    Event event = {text_of(json, "time"), text_of(json, "event"), text_of(json, "text"), 0};
    if (step != json.end() && step->is_number_integer()) event.step = step->get<std::int64_t>();
    constexpr std::size_t kMostKinds = 40;
    if (run->event_counts.size() < kMostKinds || run->event_counts.contains(event.kind))
      ++run->event_counts[event.kind];
    run->events.push_back(std::move(event));
    ++run->events_in_all;
    if (run->events.size() > kFirstEvents + 2 * kLastEvents)
      run->events.erase(run->events.begin() + kFirstEvents, run->events.end() - kLastEvents);
  });
  if (broken > 0) run->notes.push_back(cat("events.jsonl has ", broken, " broken lines, which are left out"));
}

bool there(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

// A part of the report that can be done without.
template <typename Read>
void try_part(Run* run, const char* file, const Read& read) {
  if (!there(run->folder / file)) {
    run->notes.push_back(cat("there is no ", file));
    return;
  }
  try {
    read();
  } catch (const Error& e) {
    run->notes.push_back(e.problem());
  }
}

void read_facts(Run* run) {
  const fs::path path = run->folder / "run.json";
  // Who shows them follows their members by recursion.
  constexpr int kDeepest = 64;
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kDeepest;
    return !too_deep;
  };
  Json json = Json::parse(read_text_file(path, Blame::data, 1 << 22), watch, false);
  if (too_deep) throw Error(Blame::data, cat(path.string(), " nests deeper than ", kDeepest, " levels"));
  if (!json.is_object()) throw Error(Blame::data, cat(path.string(), " is no JSON object"));
  run->facts = std::move(json);
  run->name = text_of(json, "name");
}

// The first folder in it that is a run's; "" for none.
std::string a_run_inside(const fs::path& folder) {
  std::vector<std::string> runs;
  std::error_code none;
  for (fs::directory_iterator it(folder, none), end; !none && it != end; it.increment(none))
    if (there(it->path() / "metrics.jsonl")) runs.push_back(it->path().string());
  return runs.empty() ? "" : *std::ranges::min_element(runs);
}

void require_run(const fs::path& folder) {
  std::error_code none;
  if (!fs::exists(folder, none))
    throw Error(Blame::usage, cat("there is no folder ", folder.string()),
                "name the run.output_dir of a run");
  if (!fs::is_directory(folder, none))
    throw Error(Blame::usage, cat(folder.string(), " is not a folder"), "name the run.output_dir of a run");
  if (there(folder / "metrics.jsonl")) return;
  if (there(folder / "manifest.json"))
    throw Error(Blame::data, cat(folder.string(), " is a checkpoint, not a run's folder"),
                "name the folder that holds checkpoints/");
  const std::string inside = a_run_inside(folder);
  throw Error(
      Blame::data, cat(folder.string(), " holds no run: there is no metrics.jsonl"),
      inside.empty()
          ? "name the run.output_dir of a run; a run that fails before its first step measures nothing"
          : cat("name the runs in it, as ", inside));
}

}  // namespace

const char* name(Measure measure) { return kNames[static_cast<std::size_t>(measure)]; }

Run read_run(const fs::path& folder) {
  require_run(folder);
  Run run;
  run.folder = folder.has_filename() ? folder : folder.parent_path();
  read_metrics(folder / "metrics.jsonl", &run);
  if (run.steps_logged + run.evaluations == 0)
    throw Error(Blame::data,
                run.broken_lines > 0
                    ? cat((folder / "metrics.jsonl").string(), " holds ", run.broken_lines,
                          " lines and none of them is of a run")
                    : cat((folder / "metrics.jsonl").string(), " is empty: nothing has been measured yet"),
                run.broken_lines > 0 ? "is it another program's file?" : "wait for the first step");
  read_set_aside(&run);
  try_part(&run, "events.jsonl", [&] { read_events(&run); });
  try_part(&run, "run.json", [&] { read_facts(&run); });
  try_part(&run, "recipe.yaml",
           [&] { run.recipe = read_text_file(folder / "recipe.yaml", Blame::data, 1 << 20); });
  try_part(&run, "trace.json", [&] {
    const fs::path path = folder / "trace.json";
    run.trace = exec::read_trace(read_text_file(path, Blame::data, 1 << 26), path.string());
  });
  return run;
}

void name_apart(std::vector<Run>* runs) {
  std::set<std::string> names;
  for (const Run& run : *runs) names.insert(run.name);
  if (names.size() == runs->size() && !names.contains("")) return;
  for (Run& run : *runs) run.name = run.folder.lexically_normal().string();
  std::set<std::string> folders;
  for (Run& run : *runs)
    for (int n = 2; !folders.insert(run.name).second; ++n)
      run.name = cat(run.folder.lexically_normal().string(), " (", n, ")");
}

}  // namespace zt::report
