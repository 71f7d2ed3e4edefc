// The folder a run leaves behind. One run owns it from start to end; several runs may follow each other in it
// where each goes on from the one before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace zt::train {

// Whether a run goes on from a checkpoint. `automatic`: where the run folder has one.
struct Resume {
  enum class Kind { automatic, must, never, path };
  Kind kind = Kind::automatic;
  std::filesystem::path path;  // of a step folder, for Kind::path
};
// The words of the command line: auto, must, never, or a path.
Resume parse_resume(const std::string& word);

class RunFolder {
 public:
  // Makes the folder and locks it. Throws Error(usage) when it holds files that a run would overwrite and no run
  // has made, or links where a run writes, or another process has it; Error(machine) when its file system has
  // no locks. A lock ends with its process, however that ends.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // Whether an earlier run has measured something here.
  bool used() const;
  // Throws Error(usage) when used.
  void require_fresh() const;
  // Moves what an earlier run without checkpoints has measured out of the way, keeping it: metrics.1.jsonl, ...
  void set_metrics_aside() const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace zt::train
