#include "checkpoint/step_folders.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/descriptor.h"

namespace zt::checkpoint {
namespace {

namespace fs = std::filesystem;

struct PhaseRow {
  Phase phase;
  const char* suffix;
};
constexpr PhaseRow kPhases[] = {
    {Phase::whole, ""}, {Phase::partial, ".partial"}, {Phase::deleting, ".deleting"}};

const char* suffix_of(Phase phase) {
  for (const PhaseRow& row : kPhases) {
    if (row.phase == phase) return row.suffix;
  }
  return "";
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    system_error(Blame::machine, cat("rename ", from.string(), " to"), to);
}

void remove_tree(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (failed)
    throw Error(Blame::machine, cat("cannot remove ", folder.string(), ": ", failed.message()),
                "remove it by hand");
}

}  // namespace

std::string step_folder_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

fs::path path_of(const fs::path& folder, std::int64_t step, Phase phase) {
  return folder / (step_folder_name(step) + suffix_of(phase));
}

std::optional<StepFolder> parse_step_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string stem = name.substr(0, name.find('.'));
  std::int64_t step = 0;
  if (!starts_with(stem, "step-") || !parse_int(stem.substr(5), &step) || step < 0 ||
      stem != step_folder_name(step))
    return {};
  for (const PhaseRow& row : kPhases) {
    if (name == stem + row.suffix) return StepFolder{path, step, row.phase};
  }
  return {};
}

std::vector<StepFolder> step_folders(const fs::path& folder) {
  std::vector<StepFolder> out;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code unknown;
    const auto found = parse_step_folder(it->path());
    if (found && fs::is_directory(it->symlink_status(unknown))) out.push_back(*found);
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    throw Error(Blame::machine, cat("cannot list ", folder.string(), ": ", failed.message()));
  std::sort(out.begin(), out.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::tie(a.step, a.phase) < std::tie(b.step, b.phase);
  });
  return out;
}

void remove_unfinished(const fs::path& folder) {
  for (const StepFolder& found : step_folders(folder)) {
    if (found.phase != Phase::whole) remove_tree(found.path);
  }
}

void remove_whole(const fs::path& folder, std::int64_t step) {
  const fs::path going = path_of(folder, step, Phase::deleting);
  remove_tree(going);
  rename_folder(path_of(folder, step, Phase::whole), going);
  sync_folder(folder);
  remove_tree(going);
}

void make_whole(const fs::path& folder, std::int64_t step) {
  const fs::path partial = path_of(folder, step, Phase::partial), whole = path_of(folder, step, Phase::whole);
  std::error_code unknown;
  if (!fs::exists(fs::symlink_status(whole, unknown))) {
    rename_folder(partial, whole);
    return sync_folder(folder);
  }
  // Not every file system can let two names change places; there the old one goes first.
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, whole.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) system_error(Blame::machine, "rename to", whole);
    remove_whole(folder, step);
    rename_folder(partial, whole);
  }
  sync_folder(folder);
  remove_tree(partial);
}

}  // namespace zt::checkpoint
