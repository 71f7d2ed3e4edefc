// The folder a run leaves behind. One run owns it from start to end.
#pragma once

#include <filesystem>
#include <string>

namespace zt::train {

class RunFolder {
 public:
  // Makes the folder and locks it. Throws Error(usage) when it already holds a run, or files that a run
  // would overwrite, or another process has it.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace zt::train
