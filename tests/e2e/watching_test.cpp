// What people watch a run by: TensorBoard, the run folder's files, the progress line on screens and in files.
#include "e2e/watching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

namespace zt::test {
namespace {

using Json = nlohmann::json;

// ---- TensorBoard

// The Python that scripts/setup has put the tensorboard package into; empty without.
std::string python_with_tensorboard() {
  const auto folder = source_dir() / "build/python";
  return std::filesystem::exists(folder / "has_tensorboard") ? (folder / "bin/python").string() : "";
}

constexpr const char* kReader = R"(
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'tensors': 0})
a.Reload()
tags = a.Tags()
print(json.dumps({'scalars': {t: [[e.step, e.value] for e in a.Scalars(t)] for t in tags['scalars']},
  'texts': {t: [[e.step, e.tensor_proto.string_val[0].decode()] for e in a.Tensors(t)] for t in tags['tensors']},
  'plugins': {p: list(a.PluginTagToContent(p)) for p in ['text']}}))
)";

Json tensorboard_of(const Desk& desk, const std::string& folder) {
  const Outcome o = desk.finish(desk.start_command({python_with_tensorboard(), "-c", kReader, folder}));
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const std::size_t at = o.out.find("{\"scalars\"");
  REQUIRE_MESSAGE(at != std::string::npos, o.out);
  return Json::parse(o.out.substr(at));
}

// Where a tag's number is in metrics.jsonl, when it isn't the tag's own name behind the slash.
const std::map<std::string, std::string> kKeys = {{"comm/exposed_seconds", "exposed_comm_seconds"},
                                                  {"comm/all_gather_bytes", "traffic/all_gather"},
                                                  {"comm/reduce_scatter_bytes", "traffic/reduce_scatter"},
                                                  {"comm/all_reduce_bytes", "traffic/all_reduce"},
                                                  {"eval/loss", "eval_loss"},
                                                  {"eval/tokens", "eval_tokens"}};

// Every number of the metrics that there is a tag for, each step once; and no other.
void check_same(const Json& board, const std::string& metrics) {
  for (const auto& [tag, points] : board["scalars"].items()) {
    CAPTURE(tag);
    const std::string key = "/" + (kKeys.contains(tag) ? kKeys.at(tag) : tag.substr(tag.find('/') + 1));
    std::vector<std::pair<std::int64_t, float>> expected;
    for (const Json& line : json_lines(metrics)) {
      const Json::json_pointer at(key);
      if (!line.contains(at)) continue;
      const double value = line[at].is_boolean() ? (line[at].get<bool>() ? 1 : 0) : line[at].get<double>();
      expected.emplace_back(line["step"].get<std::int64_t>(), float(value));
    }
    REQUIRE(points.size() == expected.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      CHECK(points[i][0] == expected[i].first);
      CHECK(points[i][1].get<float>() == expected[i].second);
    }
  }
}

std::set<std::string> tags_of(const Json& board) {
  std::set<std::string> tags;
  for (const auto& [tag, points] : board["scalars"].items()) tags.insert(tag);
  return tags;
}

TEST_CASE("tensorboard: its own reader finds every number of metrics.jsonl, and what the run is") {
  if (python_with_tensorboard().empty()) {
    MESSAGE("skipped: no build/python with the tensorboard package (scripts/setup tests installs it)");
    return;
  }
  const WatchDesk desk;
  desk.train({"--ranks", "2"});
  const Json board = tensorboard_of(desk, "out/tensorboard");
  check_same(board, desk.read("out/metrics.jsonl"));
  const std::set<std::string> tags = tags_of(board);
  for (const char* tag : {"train/loss", "train/learning_rate", "train/grad_norm", "train/tokens_per_second",
                          "train/mfu", "train/loss_scale", "memory/peak_bytes", "memory/planned_bytes",
                          "eval/loss", "comm/exposed_seconds", "comm/all_gather_bytes"})
    CHECK_MESSAGE(tags.contains(tag), tag);
  CHECK(board["scalars"]["train/loss"].size() == 40);
  CHECK(board["scalars"]["eval/loss"].size() == 5);
  CHECK(board["plugins"]["text"] == Json({"run"}));
  REQUIRE(board["texts"]["run"].size() == 1);
  const std::string text = board["texts"]["run"][0][1];
  for (const char* row :
       {"| what | value |\n|---|---|\n", "| model.type | llama |", "| ranks | 2 |", "| steps | 40 |"})
    CHECK_MESSAGE(contains(text, row), text);
}

TEST_CASE("tensorboard: a killed and resumed run shows each step once, with the numbers that count") {
  if (python_with_tensorboard().empty()) {
    MESSAGE("skipped: no build/python with the tensorboard package (scripts/setup tests installs it)");
    return;
  }
  const WatchDesk desk;
  const Words endless = {
      "--recipe", "recipe.yaml", "--set", "train.max_steps=1000000", "--set", "lr_schedule.name=constant"};
  const pid_t child = desk.start(endless);
  REQUIRE(desk.wait_for("out/metrics.jsonl", "\"step\":27,"));
  REQUIRE(desk.wait_for("out/checkpoints/step-00000020/manifest.json", "}"));
  ::kill(child, SIGKILL);
  CHECK(desk.finish(child).status == 128 + SIGKILL);
  const Json before = tensorboard_of(desk, "out/tensorboard");
  const std::int64_t reached = before["scalars"]["train/loss"].back()[0];
  CHECK(reached >= 27);
  const Outcome o = desk.run({"--recipe", "recipe.yaml", "--set", cat("train.max_steps=", reached + 5),
                              "--set", "lr_schedule.name=constant"});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const Json board = tensorboard_of(desk, "out/tensorboard");
  const Json& loss = board["scalars"]["train/loss"];
  REQUIRE(loss.size() == std::size_t(reached + 5));
  for (std::size_t i = 0; i < loss.size(); ++i) CHECK(loss[i][0] == i + 1);
  check_same(board, desk.read("out/metrics.jsonl"));
  // Without the mark of the restart the reader would show some steps twice: they are in both files.
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(desk.path() / "out/tensorboard"))
    files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 2);
}

TEST_CASE("tensorboard: where the recipe doesn't want it, there is none") {
  const WatchDesk desk;
  desk.train({"--set", "logging.tensorboard=false", "--set", "train.max_steps=5"});
  CHECK_FALSE(desk.has("out/tensorboard"));
  CHECK(desk.has("out/metrics.jsonl"));
}

// ---- The run folder's documentation

// Words in `code` of the first column of all tables between two headings.
std::set<std::string> first_column(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find("\n" + from), end = text.find("\n" + to);
  REQUIRE_MESSAGE(begin != std::string::npos, from);
  REQUIRE_MESSAGE(end != std::string::npos, to);
  std::set<std::string> out;
  for (const std::string& line : split(text.substr(begin, end - begin), '\n')) {
    if (!starts_with(line, "| `")) continue;
    const std::string cell = line.substr(2, line.find(" |", 2) - 2);
    const std::regex code("`([^`]+)`");
    for (auto it = std::sregex_iterator(cell.begin(), cell.end(), code); it != std::sregex_iterator(); ++it)
      out.insert((*it)[1]);
  }
  return out;
}

// Paths of all values: "traffic.all_gather", "ops[].name".
void add_paths(const Json& json, const std::string& path, std::set<std::string>* out) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [name, member] : json.items())
      add_paths(member, path.empty() ? name : path + "." + name, out);
  } else if (json.is_array() && !json.empty() && json[0].is_object()) {
    for (const Json& one : json) add_paths(one, path + "[]", out);
  } else {
    out->insert(json.is_array() ? path + "[]" : path);
  }
}

void check_both_ways(const std::set<std::string>& there, const std::set<std::string>& documented) {
  for (const std::string& one : there) CHECK_MESSAGE(documented.contains(one), "not documented: ", one);
  for (const std::string& one : documented) CHECK_MESSAGE(there.contains(one), "never there: ", one);
}

TEST_CASE("run folder: every file, key, event and tag is documented, and what is documented is there") {
  const WatchDesk desk;
  // A job of a batch system, so that `job` has members; and a run that is stopped and resumed.
  desk.train({"--ranks", "2", "--set", "train.max_steps=20"});
  desk.train({"--ranks", "2", "--set", "train.max_steps=24"});
  const std::string doc = read_file(source_dir() / "docs/formats/run_folder.md");

  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(desk.path() / "out"))
    files.insert(entry.path().filename().string() + (entry.is_directory() ? "/" : ""));
  std::set<std::string> told = first_column(doc, "## Files", "## metrics.jsonl");
  for (const char* seldom : {"metrics.1.jsonl", "save-now"}) {
    CHECK_MESSAGE(told.erase(seldom) == 1, seldom);
  }
  check_both_ways(files, told);

  std::set<std::string> keys;
  for (const Json& line : json_lines(desk.read("out/metrics.jsonl"))) add_paths(line, "", &keys);
  check_both_ways(keys, first_column(doc, "## metrics.jsonl", "## events.jsonl"));

  keys.clear();
  add_paths(Json::parse(desk.read("out/run.json")), "", &keys);
  std::set<std::string> run_keys = first_column(doc, "## run.json", "## trace.json");
  for (const char* of_job : {"job.scheduler", "job.id", "job.name", "job.restarts"})
    CHECK_MESSAGE(run_keys.erase(of_job) == 1, of_job);
  check_both_ways(keys, run_keys);

  keys.clear();
  add_paths(Json::parse(desk.read("out/trace.json")), "", &keys);
  check_both_ways(keys, first_column(doc, "## trace.json", "## tensorboard"));

  std::set<std::string> kinds;
  const std::string source = read_file(source_dir() / "src/train/events.cpp");
  const std::regex word("\\{EventKind::(\\w+), \"(\\w+)\"\\}");
  for (auto it = std::sregex_iterator(source.begin(), source.end(), word); it != std::sregex_iterator(); ++it)
    kinds.insert((*it)[2]);
  CHECK(kinds.size() >= 10);
  check_both_ways(kinds, first_column(doc, "### Kinds of events", "## run.json"));
  std::set<std::string> members;
  for (const Json& line : json_lines(desk.read("out/events.jsonl")))
    for (const auto& [name, value] : line.items()) members.insert(name);
  const std::set<std::string> event_keys = first_column(doc, "## events.jsonl", "### Kinds of events");
  for (const std::string& member : members)
    CHECK_MESSAGE(event_keys.contains(member), "not documented: ", member);

  if (python_with_tensorboard().empty()) return;
  std::set<std::string> tags = tags_of(tensorboard_of(desk, "out/tensorboard"));
  tags.insert("run");
  check_both_ways(tags, first_column(doc, "## tensorboard", "## Reading it"));
}

// ---- The trace

TEST_CASE(
    "trace: every op of a step is there, lanes are in order, and waits add up to what the metrics say") {
  const WatchDesk desk;
  for (const Words& how :
       {Words{}, Words{"--ranks", "2"}, Words{"--ranks", "2", "--set", "comm.lanes=inline"}}) {
    Words words = how;
    words.insert(words.end(), {"--set", cat("run.output_dir=out", words.size())});
    desk.train(words);
    const std::string out = cat("out", words.size() - 2, "/");
    const Json trace = Json::parse(desk.read(out + "trace.json"));
    CHECK(trace["step"] == 3);
    CHECK(contains(desk.read(out + "plan.txt"), trace["train_fingerprint"].get<std::string>()));
    double waited = 0;
    std::map<std::string, double> end_of_lane;
    for (const Json& op : trace["ops"]) {
      double& end = end_of_lane[op["lane"].get<std::string>()];
      CHECK(op["start"].get<double>() >= end);
      CHECK(op["end"] >= op["start"]);
      CHECK(op["end"] <= trace["seconds"]);
      end = op["end"];
    }
    for (const Json& wait : trace["waits"]) waited += wait["seconds"].get<double>();
    CHECK(waited == doctest::Approx(trace["exposed_comm_seconds"].get<double>()).epsilon(1e-6));
    const Json third = json_lines(desk.read(out + "metrics.jsonl"))[3];
    REQUIRE(third["step"] == 3);
    CHECK(trace["exposed_comm_seconds"].get<double>() ==
          doctest::Approx(third["exposed_comm_seconds"].get<double>()).epsilon(1e-3));
    CHECK(trace["seconds"] <= third["step_seconds"]);
    CHECK((waited > 0) == (how.size() > 0));
  }
}

// ---- Progress

bool has_tmux() { return std::system("tmux -V >/dev/null 2>&1") == 0; }

// A screen of its own server, which ends with it.
class Screen {
 public:
  Screen(const Desk& desk, int width, int height, const std::string& command)
      : desk_(desk), tmux_(cat("env -u TMUX tmux -f /dev/null -S ", (desk.path() / "tmux").string(), " ")) {
    run(cat("new-session -d -x ", width, " -y ", height, " ", command));
  }
  ~Screen() { run("kill-server"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  void resize(int width, int height) const { run(cat("resize-window -x ", width, " -y ", height)); }
  std::string text(const std::string& how = "") const {
    run(cat("capture-pane ", how, " -p > ", (desk_.path() / "screen").string()));
    return desk_.read("screen");
  }
  // Lines with something on them.
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const std::string& line : split(text(), '\n'))
      if (!trim(line).empty()) out.push_back(line);
    return out;
  }
  // The last line of the screen once it looks so; else the last one seen.
  std::string wait_for_last(const std::regex& pattern, double limit_seconds = 60) const {
    std::string last;
    for (int i = 0; i < limit_seconds * 10; ++i) {
      const std::vector<std::string> now = lines();
      last = now.empty() ? "" : now.back();
      if (std::regex_search(last, pattern)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return last;
  }

 private:
  void run(const std::string& words) const {
    [[maybe_unused]] const int status = std::system((tmux_ + words + " 2>/dev/null").c_str());
  }
  const Desk& desk_;
  std::string tmux_;
};

std::string endless_command(const Desk& desk) {
  return cat("\"cd ", desk.path().string(), " && ZEROTRAIN_CACHE=", (desk.path() / "cache").string(),
             " timeout 120 ", Desk::binary(),
             " --recipe recipe.yaml --set train.max_steps=10000000 --set train.eval_every=400 "
             "--set lr_schedule.name=constant\"");
}

const std::regex kBar(R"(^\[=*>? *\] \d+/10000000  loss \d+\.\d{4}  [\d,]+ tok/s  MFU \d+ %  .* left)"),
    kAny(R"(^(\[=*>? *\] )?\d+/10000000  loss \d)");

TEST_CASE("progress: in tmux one line holds the bar at any width, also while the window is resized") {
  if (!has_tmux()) {
    MESSAGE("skipped: no tmux");
    return;
  }
  for (const int width : {40, 80, 132, 200}) {
    CAPTURE(width);
    const WatchDesk desk;
    const Screen screen(desk, width, 24, endless_command(desk));
    const std::regex& pattern = width >= 132 ? kBar : kAny;
    const std::string first = screen.wait_for_last(pattern);
    CHECK_MESSAGE(std::regex_search(first, pattern), first);
    CHECK(first.size() <= std::size_t(width));
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      const std::vector<std::string> lines = screen.lines();
      // The bar is drawn over itself, never below itself; between two drawings the line may be empty.
      CHECK(std::ranges::count_if(lines, [](const std::string& l) {
              return contains(l, "tok/s") || contains(l, "/10000000");
            }) <= 1);
    }
    // Evaluations are lines of their own, above the bar.
    for (int i = 0; i < 100 && !contains(screen.text("-S -"), "validation loss"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::string history = screen.text("-S - -J");
    for (const std::string& line : split(history, '\n'))
      if (contains(line, "validation loss")) CHECK_MESSAGE(starts_with(line, "step "), line);
    CHECK(contains(history, "validation loss"));
    for (const int other : {160, 50}) {
      CAPTURE(other);
      screen.resize(other, 20);
      const std::regex& now = other >= 132 ? kBar : kAny;
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      const std::string last = screen.wait_for_last(now);
      CHECK_MESSAGE(std::regex_search(last, now), last);
      CHECK(last.size() <= std::size_t(other));
    }
  }
}

TEST_CASE("progress: in a pipe and in a file there are whole lines and no control characters") {
  const WatchDesk desk;
  const auto check = [](const std::string& text) {
    for (const char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
    CHECK(text.ends_with("\n"));
    const std::regex line(
        R"(^step 40/40  loss \d+\.\d{4}  [\d,]+ tok/s  MFU \d+ %  lr \S+  norm \d+\.\d{3}  0\.0 s left$)");
    bool found = false;
    for (const std::string& one : split(text, '\n')) found = found || std::regex_match(one, line);
    CHECK_MESSAGE(found, text);
    CHECK(contains(text, "step 40: validation loss "));
  };
  check(desk.train({}).err);  // a file, as in a SLURM job
  const Outcome piped = desk.finish(desk.start_command(
      {"/bin/sh", "-c", "\"$0\" --recipe recipe.yaml --set run.output_dir=piped 2>&1 | cat",
       Desk::binary()}));
  CHECK(piped.status == 0);
  check(piped.out);
  // What the log file keeps has the same lines behind the time.
  CHECK(contains(desk.read("out/log.txt"), " step 40: validation loss "));
  for (const char c : desk.read("out/log.txt")) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
}

TEST_CASE("progress: what is trained is green on a terminal, and in brackets in a file") {
  const WatchDesk desk;
  const std::string words = " data --recipe recipe.yaml --rows 1 --text";
  const Outcome file = desk.run({"data", "--recipe", "recipe.yaml", "--rows", "1", "--text"});
  REQUIRE_MESSAGE(file.status == 0, file.err);
  CHECK(contains(file.out, "\u27e6"));
  CHECK_FALSE(contains(file.out, "\x1b"));
  if (!has_tmux()) {
    MESSAGE("skipped: no tmux");
    return;
  }
  const Screen screen(
      desk, 100, 40,
      cat("\"cd ", desk.path().string(), " && ZEROTRAIN_CACHE=", (desk.path() / "cache").string(), " ",
          Desk::binary(), words, "; echo ended; sleep 60\""));
  const std::string last = screen.wait_for_last(std::regex("^ended"));
  CHECK(last == "ended");
  const std::string shown = screen.text("-e");
  CHECK_MESSAGE(contains(shown, "\x1b[32m"), shown);
  CHECK_FALSE(contains(shown, "\u27e6"));
}

}  // namespace
}  // namespace zt::test
