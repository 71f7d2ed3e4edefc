#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/host.h"
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

// The first name of this kind that nothing has yet.
static std::string another_folder(const fs::path& path) {
  std::error_code unknown;
  int number = 2;
  while (fs::exists(cat(path.string(), "-", number), unknown)) ++number;
  return cat("choose another folder: --set run.output_dir=", path.string(), "-", number);
}

// A run writes and removes files under these names; through a link it would do so elsewhere.
static void require_no_links(const fs::path& path) {
  for (const char* const name :
       {".lock", "checkpoints", "export", "tensorboard", "metrics.jsonl", "events.jsonl", "log.txt",
        "run.json", "recipe.yaml", "plan.txt", "trace.json", "save-now"}) {
    std::error_code unknown;
    if (!fs::is_symlink(fs::symlink_status(path / name, unknown))) continue;
    throw Error(
        Blame::usage,
        cat((path / name).string(), " is a link; a run writes and removes files in its own folder only"),
        "to keep runs on another disk let run.output_dir name a folder there, or make the whole run folder "
        "a link");
  }
}

// Who has the folder, for people who are refused: "process 4711 on node1". The lock itself is the system's, so what is
// written here means nothing once its process is gone, and a full disk doesn't matter.
static void name_holder(int lock) {
  const std::string text = cat("process ", ::getpid(), " on ", host_name(), "\n");
  if (::ftruncate(lock, 0) == 0) (void)!::pwrite(lock, text.data(), text.size(), 0);
}

static std::string holder_of(int lock) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(lock, text.data(), text.size(), 0);
  std::string line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  line.resize(std::min(line.find('\n'), line.size()));
  const bool plain = std::ranges::all_of(line, [](char c) { return c >= ' ' && c < 0x7F; });
  return plain && starts_with(line, "process ") ? line : "";
}

// A process that is killed lets go only some time after its launcher has ended, and after it looks as if it had gone: so
// a run that is started at once waits a little. False, with errno, where somebody keeps it.
static bool lock_soon(int lock) {
  using namespace std::chrono_literals;
  constexpr auto kPatience = 2s;
  const auto start = std::chrono::steady_clock::now();
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() - start > kPatience) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

static Error lockless(const fs::path& path, int reason) {
  return {Blame::machine,
          cat("the file system of run folder ", path.string(), " gives no locks (flock: ",
              std::strerror(reason), "), which keep two runs from writing there at the same time"),
          "mount it with locks (Lustre: option flock; NFS: without nolock), or let run.output_dir name a "
          "folder on "
          "another file system"};
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
  require_no_links(path);
  const fs::path lock_file = path / ".lock";
  if (!fs::exists(lock_file)) require_free_names(path);
  lock_ = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock_ < 0)
    throw Error(Blame::machine, cat("cannot write in run folder ", path.string(), ": ", std::strerror(errno)),
                "choose another run.output_dir");
  if (!lock_soon(lock_)) {
    const int reason = errno;
    const std::string holder = holder_of(lock_);
    ::close(lock_);
    if (reason != EWOULDBLOCK) throw lockless(path, reason);
    throw Error(Blame::usage,
                cat("run folder ", path.string(), " is in use by another process",
                    holder.empty() ? "" : cat(" (", holder, ")")),
                cat("end that one first, or ", another_folder(path)));
  }
  name_holder(lock_);
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
