#include "checkpoint/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace zt::checkpoint {
namespace fs = std::filesystem;

void system_error(Blame blame, const std::string& doing, const fs::path& path, const std::string& hint) {
  throw Error(blame, cat("cannot ", doing, " ", path.string(), ": ", std::strerror(errno)), hint);
}

Descriptor open_to_read(const fs::path& file, Blame blame) {
  // Without O_NONBLOCK, opening a pipe waits for a writer; regular files don't know the difference.
  Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.raw() < 0) system_error(blame, "open", file);
  struct stat info = {};
  if (::fstat(descriptor.raw(), &info) != 0) system_error(blame, "examine", file);
  if (!S_ISREG(info.st_mode)) throw Error(blame, cat(file.string(), " is not a regular file"));
  return descriptor;
}

static void sync(const fs::path& path, int flags) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (descriptor.raw() < 0 || ::fsync(descriptor.raw()) != 0)
    system_error(Blame::machine, "sync", path, "is there space on the disk?");
}

void sync_file(const fs::path& file) { sync(file, 0); }
void sync_folder(const fs::path& folder) { sync(folder, O_DIRECTORY); }

}  // namespace zt::checkpoint
