// Files that a run is not meant to leave.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace zt::test {

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
