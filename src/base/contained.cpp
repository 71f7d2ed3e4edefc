#include "base/contained.h"

#include <algorithm>

#include "base/text.h"

namespace zt {
namespace fs = std::filesystem;

// Whether `path` lies below `folder`; both without links.
static bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

bool stays_below(const std::string& name) {
  const fs::path path(name);
  if (name.empty() || path.is_absolute() || name.find('\0') != name.npos) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

void require_contained(const fs::path& folder, const std::string& name, Blame blame) {
  std::error_code failed;
  const fs::path real_folder = fs::canonical(folder, failed);
  if (failed) return;  // whoever opens it says why
  const fs::path real = fs::canonical(folder / name, failed);
  if (failed || is_below(real, real_folder)) return;
  const fs::path snapshots = real_folder.parent_path();
  if (snapshots.filename() == "snapshots" && is_below(real, snapshots.parent_path() / "blobs")) return;
  throw Error(blame, cat((folder / name).string(), " is a link that leads out of its folder"),
              "copy the file that is meant into the folder");
}

}  // namespace zt
