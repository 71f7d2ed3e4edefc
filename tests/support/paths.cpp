#include "support/paths.h"

#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace zt::test {
namespace fs = std::filesystem;

static std::string env_or(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

fs::path source_dir() { return env_or("ZEROTRAIN_SOURCE_DIR", fs::current_path().string()); }

std::optional<fs::path> test_data(const std::string& relative) {
  const fs::path root = env_or("ZEROTRAIN_TEST_DATA", (source_dir() / "../shared/data").string());
  if (fs::exists(root / relative)) return root / relative;
  std::printf("SKIPPED: %s is not there (set ZEROTRAIN_TEST_DATA)\n", (root / relative).c_str());
  return std::nullopt;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

ScratchDir::ScratchDir() {
  std::string pattern = (fs::temp_directory_path() / "zerotrain-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
  path_ = pattern;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path ScratchDir::write(const std::string& name, const std::string& bytes) const {
  const fs::path path = path_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace zt::test
