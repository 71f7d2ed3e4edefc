// What a job that has ended may have left on the machine: processes, and files besides those a run is meant to leave.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace zt::test {

struct Remnant {
  pid_t process = 0;
  std::string command;
};

// The processes that work in a folder or below it, this one apart.
inline std::vector<Remnant> processes_in(const std::filesystem::path& folder) {
  std::vector<Remnant> found;
  std::error_code none;
  const auto home = std::filesystem::weakly_canonical(folder);
  for (std::filesystem::directory_iterator it("/proc", none), end; !none && it != end; it.increment(none)) {
    const std::string name = it->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid()))
      continue;
    std::error_code gone;
    const auto works_in = std::filesystem::read_symlink(it->path() / "cwd", gone);
    if (gone || !(works_in == home || works_in.string().starts_with(home.string() + "/"))) continue;
    std::ifstream in(it->path() / "cmdline", std::ios::binary);
    std::string line((std::istreambuf_iterator<char>(in)), {});
    if (line.empty()) continue;  // only its status is left
    std::ranges::replace(line, '\0', ' ');
    found.push_back({static_cast<pid_t>(std::stol(name)), line});
  }
  return found;
}

// The same once they have had so many seconds to end.
inline std::vector<Remnant> still_in(const std::filesystem::path& folder, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    std::vector<Remnant> left = processes_in(folder);
    if (left.empty() || std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds))
      return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Names in a run's folder, and in its checkpoints', that no run is meant to leave.
inline std::vector<std::string> odd_files_in(const std::filesystem::path& run) {
  static const std::vector<std::string> known = {"recipe.yaml",  "plan.txt", "log.txt",    "metrics.jsonl",
                                                 "events.jsonl", "run.json", "trace.json", "tensorboard",
                                                 "checkpoints",  "export",   ".lock"};
  std::vector<std::string> odd;
  std::error_code none;
  for (std::filesystem::directory_iterator it(run, none), end; !none && it != end; it.increment(none))
    if (std::ranges::find(known, it->path().filename().string()) == known.end()) odd.push_back(it->path());
  for (std::filesystem::directory_iterator it(run / "checkpoints", none), end; !none && it != end;
       it.increment(none)) {
    const std::string name = it->path().filename();
    if (!name.starts_with("step-") || name.find('.') != std::string::npos) odd.push_back(it->path());
  }
  return odd;
}

}  // namespace zt::test
