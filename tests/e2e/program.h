// The program as a user meets it: its streams, its exit status, and signals to it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/paths.h"

namespace zt::test {

using Words = std::vector<std::string>;

struct Outcome {
  int status = -1;  // exit status; 128 + signal when one ended it; -1 when it had to be killed for its time
  std::string out, err;
  double seconds = 0;
};

// Runs in a scratch folder of its own; relative paths of the arguments start there. Token caches stay there
// too.
class Desk {
 public:
  static std::string binary() { return from_environment("ZEROTRAIN_BINARY", "the program"); }
  // mpirun, for tests that start several ranks.
  static std::string launcher() { return from_environment("ZEROTRAIN_MPIEXEC", "mpirun"); }

  const std::filesystem::path& path() const { return scratch_.path(); }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    return scratch_.write(name, bytes);
  }
  std::string read(const std::string& name) const { return read_file(path() / name); }
  bool has(const std::string& name) const { return std::filesystem::exists(path() / name); }

  // Starts the program; its streams go to files. End it with finish().
  pid_t start(const Words& arguments, const std::string& input = "", const std::string& streams = "1",
              const std::string& stdout_to = "") const {
    Words command = {binary()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return start_command(command, input, streams, stdout_to);
  }
  // The same for another command, given by all its words.
  pid_t start_command(const Words& command, const std::string& input = "", const std::string& streams = "1",
                      const std::string& stdout_to = "") const {
    const std::string in = write(".in" + streams, input), base = path().string() + "/.";
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string out = stdout_to.empty() ? base + "out" + streams : stdout_to,
                      err = base + "err" + streams;
    // Here, so that a test that waits for a line never sees one of an earlier run.
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    const int streams_of_child[] = {::open(in.c_str(), O_RDONLY | O_CLOEXEC), ::open(out.c_str(), kNew, 0644),
                                    ::open(err.c_str(), kNew, 0644)};
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) {
      for (int stream = 0; stream < 3; ++stream) ::dup2(streams_of_child[stream], stream);
      ::setenv("ZEROTRAIN_CACHE", (path() / "cache").c_str(), 1);
      ::setenv("XDG_CACHE_HOME", (path() / "xdg").c_str(),
               1);  // where a calibration of this machine would be
      if (::chdir(path().c_str()) != 0) ::_exit(126);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    for (const int stream : streams_of_child) ::close(stream);
    return child;
  }

  // Waits for its end; a program that takes longer is stopped: first by SIGTERM, which a launcher passes on to
  // the ranks it has started.
  Outcome finish(pid_t child, double limit_seconds = 300, const std::string& streams = "1") const {
    Outcome outcome;
    const auto begin = Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    int raw = 0, stopped_by = 0;
    while (::waitpid(child, &raw, WNOHANG) == 0) {
      const int stop = passed() > limit_seconds + 10 ? SIGKILL : passed() > limit_seconds ? SIGTERM : 0;
      if (stop != stopped_by) ::kill(child, stopped_by = stop);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    outcome.seconds = passed();
    if (stopped_by == 0) outcome.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    if (has(".out" + streams)) outcome.out = read(".out" + streams);
    outcome.err = read(".err" + streams);
    return outcome;
  }

  Outcome run(const Words& arguments, const std::string& input = "") const {
    return finish(start(arguments, input));
  }

  // Waits until a file holds a text; false when that takes too long.
  bool wait_for(const std::string& name, const std::string& text, double limit_seconds = 120) const {
    const auto begin = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - begin).count() < limit_seconds) {
      if (has(name) && read(name).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static std::string from_environment(const char* name, const char* what) {
    const char* const value = std::getenv(name);
    if (value == nullptr)
      throw std::runtime_error(std::string(name) + " does not name " + what + " (CTest sets it)");
    return value;
  }
  ScratchDir scratch_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// The evaluation lines of a run's metrics.
inline std::vector<nlohmann::json> evaluations(const std::string& metrics) {
  std::vector<nlohmann::json> lines = json_lines(metrics);
  std::erase_if(lines, [](const nlohmann::json& line) { return !line.contains("eval_loss"); });
  return lines;
}

}  // namespace zt::test
