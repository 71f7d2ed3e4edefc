#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace zt::train {
namespace fs = std::filesystem;

// A folder that no run has made may hold a person's own files of the names a run writes.
static void require_free_names(const fs::path& path) {
  for (const char* const name : {"recipe.yaml", "plan.txt", "log.txt"}) {
    if (fs::exists(path / name))
      throw Error(Blame::usage, cat(path.string(), " holds ", name, ", which no run has written; it is kept"),
                  "choose a new folder as run.output_dir");
  }
}

static std::string another_folder(const fs::path& path) {
  return cat("choose another folder: --set run.output_dir=", path.string(), "-2");
}

Resume parse_resume(const std::string& word) {
  if (word == "auto") return {Resume::Kind::automatic, {}};
  if (word == "must") return {Resume::Kind::must, {}};
  if (word == "never") return {Resume::Kind::never, {}};
  return {Resume::Kind::path, word};
}

RunFolder::RunFolder(const fs::path& path) : path_(path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed)
    throw Error(Blame::machine, cat("cannot make run folder ", path.string(), ": ", failed.message()),
                "choose another run.output_dir");
  // The lock is the system's, so it ends with the process however that ends.
  const fs::path lock_file = path / ".lock";
  if (!fs::exists(lock_file)) require_free_names(path);
  lock_ = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0)
    throw Error(Blame::machine, cat("cannot write in run folder ", path.string(), ": ", std::strerror(errno)),
                "choose another run.output_dir");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw Error(Blame::usage, cat("run folder ", path.string(), " is in use by another process"),
                another_folder(path));
  }
}

bool RunFolder::used() const { return fs::exists(path_ / "metrics.jsonl"); }

void RunFolder::require_fresh() const {
  if (used())
    throw Error(Blame::usage, cat("run folder ", path_.string(), " already holds a run"),
                another_folder(path_));
}

void RunFolder::set_metrics_aside() const {
  for (int n = 1;; ++n) {
    const fs::path aside = path_ / cat("metrics.", n, ".jsonl");
    if (fs::exists(aside)) continue;
    fs::rename(path_ / "metrics.jsonl", aside);
    return;
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace zt::train
