// Where tests find the project, the program under test and the real data.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace zt::test {

// The folder of the project's sources (ZEROTRAIN_SOURCE_DIR, set by CTest; else the current folder).
std::filesystem::path source_dir();

// A file or folder of the real test data (ZEROTRAIN_TEST_DATA), or nothing where it is absent; then a line
// saying so goes to stdout, and the caller returns: `auto path = test_data("text/x.txt"); if (!path) return;`
std::optional<std::filesystem::path> test_data(const std::string& relative);

// The whole file as bytes; fails the test when it can't be read.
std::string read_file(const std::filesystem::path& path);

// A fresh empty folder that is removed when the object dies.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // Writes a file below the folder (making folders on the way) and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace zt::test
