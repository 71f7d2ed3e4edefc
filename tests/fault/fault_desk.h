// Runs of a tiny model that are stopped, killed, damaged and resumed: alone, on virtual ranks, under mpirun.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "e2e/program.h"

namespace zt::test {

namespace fs = std::filesystem;

// 22,008 parameters; no block's size is a multiple of 3, 5 or 8 ranks.
inline const std::string kTinyRecipe = R"(run: {output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 2,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}
  dropout: 0.1
tokenizer: {type: byte}
data:
  sequence_length: 16
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {max_steps: 12, micro_batch_size: 1, global_batch_size: 6, eval_every: 4}
optimizer: {learning_rate: 1e-3}
lr_schedule: {name: constant, warmup_steps: 4}
checkpoint: {every_steps: 2}
)";
// A run that only a signal ends.
inline const Words kEndless = {"train.max_steps=1000000"};

// How a run is started.
struct Way {
  int ranks = 1;
  bool launched = false;   // by mpirun; else virtual ranks
  Words environment = {};  // NAME=VALUE, of the ranks alone
  std::string name() const {
    return ranks == 1 && !launched ? "alone" : cat(launched ? "mpirun -n " : "--ranks ", ranks);
  }
};
inline const Way kAlone, kTwo{2, false}, kTwoLaunched{2, true};

// The last of what a program said.
inline std::string end_of(const std::string& text) {
  constexpr std::size_t kShown = 1500;
  return text.size() <= kShown ? text : "... " + text.substr(text.size() - kShown);
}

// A desk with the recipe and a text on it.
class FaultDesk : public Desk {
 public:
  FaultDesk() {
    write("recipe.yaml", kTinyRecipe);
    write("text.txt", lines_of_text(60));
  }
  // What a failed test has left running.
  ~FaultDesk() {
    for (const pid_t process : processes_here()) ::kill(process, SIGKILL);
  }

  static std::string lines_of_text(int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += cat("Line ", i, " says that the quick brown fox jumps over the lazy dog.\n");
    return text;
  }

  pid_t begin(const Way& way, const Words& sets, const Words& more = {},
              const std::string& streams = "1") const {
    Words command;
    // What a killed job leaves of its files is removed with the desk.
    if (way.launched)
      command = {launcher(),      "--mca", "btl_vader_backing_directory",
                 path().string(), "--mca", "orte_tmpdir_base",
                 path().string(), "-n",    cat(way.ranks)};
    if (!way.launched && !way.environment.empty()) command.push_back("env");
    for (const std::string& variable : way.environment) {
      if (way.launched) command.push_back("-x");
      command.push_back(variable);
    }
    command.push_back(binary());
    if (!way.launched && way.ranks > 1) append(command, {"--ranks", cat(way.ranks)});
    append(command, {"--recipe", "recipe.yaml"});
    for (const std::string& set : sets) append(command, {"--set", set});
    append(command, more);
    return start_command(command, "", streams);
  }
  Outcome train(const Way& way, const Words& sets, const Words& more = {}) const {
    return finish(begin(way, sets, more), 60);
  }
  // A run that must go well.
  Outcome good(const Way& way, const Words& sets, const Words& more = {}) const {
    const Outcome o = train(way, sets, more);
    REQUIRE_MESSAGE(o.status == 0, end_of(o.err));
    return o;
  }

  // The processes that train: of a launched job mpirun's children, as soon as all of them run the program.
  static std::vector<pid_t> processes(const Way& way, pid_t started) {
    if (!way.launched) return {started};
    for (int i = 0; i < 20000; ++i) {
      std::ifstream in(cat("/proc/", started, "/task/", started, "/children"));
      std::vector<pid_t> children;
      for (pid_t child = 0; in >> child;)
        if (is_program(child)) children.push_back(child);
      if (int(children.size()) == way.ranks) return children;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw std::runtime_error("mpirun has not started its ranks");
  }
  static bool is_program(pid_t process) {
    std::error_code gone;
    return fs::equivalent(cat("/proc/", process, "/exe"), binary(), gone);
  }
  // To the last rank.
  static void signal_one(const Way& way, pid_t started, int signal) {
    ::kill(processes(way, started).back(), signal);
  }
  // All of them and the launcher at once, as a machine that loses its power does it. Returns when they are gone.
  Outcome kill_all(const Way& way, pid_t started) const {
    const std::vector<pid_t> all = processes(way, started);
    for (const pid_t process : all) ::kill(process, SIGKILL);
    ::kill(started, SIGKILL);
    const Outcome o = finish(started, 60);
    for (const pid_t process : all) {
      for (int i = 0; i < 10000 && is_program(process); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return o;
  }

  // The processes that this desk's commands have started, and theirs: they have its path in their environment.
  std::vector<pid_t> processes_here() const {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (fs::directory_iterator it("/proc", ignored), end; !ignored && it != end; it.increment(ignored)) {
      const int process = std::atoi(it->path().filename().c_str());
      if (process > 0 && has_variable(process, cat("ZEROTRAIN_CACHE=", (path() / "cache").string())))
        found.push_back(process);
    }
    return found;
  }
  static bool has_variable(pid_t process, const std::string& variable) {
    std::ifstream in(cat("/proc/", process, "/environ"), std::ios::binary);
    for (std::string text; std::getline(in, text, '\0');)
      if (text == variable) return true;
    return false;
  }
  // Waits a little: who ends the launcher sees its end before its own. Kills what is left then, and names it.
  std::string survivors(double patience_seconds = 3) const {
    std::vector<pid_t> left = processes_here();
    for (int i = 0; i < patience_seconds * 20 && !left.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      left = processes_here();
    }
    std::string names;
    for (const pid_t process : left) {
      std::ifstream in(cat("/proc/", process, "/comm"));
      std::string name;
      std::getline(in, name);
      names += cat(names.empty() ? "" : ", ", process, " ", name);
      ::kill(process, SIGKILL);
    }
    return names;
  }

  // The last whole line of a run's metrics that tells of a step; 0 before the first.
  std::int64_t last_step(const std::string& folder) const {
    std::int64_t step = 0;
    std::istringstream lines(has(folder + "/metrics.jsonl") ? read(folder + "/metrics.jsonl") : "");
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("loss")) step = json["step"];
    }
    return step;
  }
  // Waits until a step from `step` on has been measured.
  bool wait_for_step(const std::string& folder, std::int64_t step) const {
    for (int i = 0; i < 60000; ++i) {
      if (last_step(folder) >= step) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  // The metrics with the fields left out that the system measures, else byte for byte.
  std::string timeless(const std::string& folder) const {
    std::string text = read(folder + "/metrics.jsonl");
    for (const char* field :
         {"step_seconds", "tokens_per_second", "mfu", "exposed_comm_seconds", "process_peak_bytes"}) {
      const std::string begin = cat("\"", field, "\":");
      for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at))
        text.erase(at, text.find(',', at) + 1 - at);
    }
    return text;
  }
  // Values of one field of the lines about steps.
  std::vector<nlohmann::json> field(const std::string& folder, const std::string& name) const {
    std::vector<nlohmann::json> values;
    for (const nlohmann::json& line : json_lines(read(folder + "/metrics.jsonl")))
      if (line.contains(name)) values.push_back(line[name]);
    return values;
  }
  std::string weights(const std::string& folder) const { return read(folder + "/export/model.safetensors"); }

  // What is in a run's checkpoints folder, by step.
  std::vector<checkpoint::Listed> checkpoints(const std::string& folder) const {
    return checkpoint::list(path() / folder / "checkpoints");
  }
  std::vector<std::int64_t> steps(const std::string& folder) const {
    std::vector<std::int64_t> all;
    for (const checkpoint::Listed& listed : checkpoints(folder))
      if (listed.good()) all.push_back(listed.step);
    return all;
  }
  bool wait_for_checkpoint(const std::string& folder) const {
    for (int i = 0; i < 12000 && steps(folder).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !steps(folder).empty();
  }
  static std::string step_folder(const std::string& run, std::int64_t step) {
    return cat(run, "/checkpoints/step-", fmt::format("{:08}", step));
  }
  // Whether there is the folder of an unfinished save, made since `since`.
  bool has_partial(const std::string& folder, fs::file_time_type since = fs::file_time_type::min()) const {
    std::error_code ignored;
    for (fs::directory_iterator it(path() / folder / "checkpoints", ignored), end; !ignored && it != end;
         it.increment(ignored)) {
      if (it->path().extension() != ".partial") continue;
      const auto changed = fs::last_write_time(it->path(), ignored);
      if (!ignored && changed >= since) return true;
    }
    return false;
  }

 private:
  static void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }
};

// The first line in which two texts differ, as both have it; empty when they are equal.
inline std::string first_difference(const std::string& a, const std::string& b) {
  if (a == b) return "";
  std::istringstream in_a(a), in_b(b);
  for (int number = 1;; ++number) {
    std::string line_a, line_b;
    const bool more_a = bool(std::getline(in_a, line_a)), more_b = bool(std::getline(in_b, line_b));
    if (more_a && more_b && line_a == line_b) continue;
    return cat("line ", number, ":\n  ", more_a ? line_a : "(no line)", "\n  ",
               more_b ? line_b : "(no line)");
  }
}

inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace zt::test
