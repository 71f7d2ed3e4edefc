// The names and the life of checkpoint folders: step-00000100.partial while it is written, step-00000100 when it is
// whole, step-00000100.deleting while it goes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zt::checkpoint {

std::string step_folder_name(std::int64_t step);  // "step-00000100"

enum class Phase { whole, partial, deleting };

struct StepFolder {
  std::filesystem::path path;
  std::int64_t step = 0;
  Phase phase = Phase::whole;
};

// The folder and phase that a name means; nothing for other names.
std::optional<StepFolder> parse_step_folder(const std::filesystem::path& path);
std::filesystem::path path_of(const std::filesystem::path& folder, std::int64_t step, Phase phase);

// The folders of such names in `folder`, by step. Links aren't followed. Empty when `folder` isn't there.
std::vector<StepFolder> step_folders(const std::filesystem::path& folder);

// Removes what a stopped save or removal has left. Error(machine).
void remove_unfinished(const std::filesystem::path& folder);
// Removes a whole checkpoint: one rename takes its name away, so that a kill leaves no half one.
void remove_whole(const std::filesystem::path& folder, std::int64_t step);
// Partial becomes whole in one rename, and the parent is synced. One of the same step that is there changes places with
// it and is removed.
void make_whole(const std::filesystem::path& folder, std::int64_t step);

}  // namespace zt::checkpoint
