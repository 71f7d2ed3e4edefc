// Folders whose files are read as they were given: nothing in them may lead out of them.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace zt {

// Whether a relative name stays below the folder it is relative to: not empty, not absolute, no "..", no zero byte.
// Links are not looked at.
bool stays_below(const std::string& name);

// Throws Error(blame) when folder/name is there and is, with its links followed, a file outside `folder`: a folder that
// came from elsewhere must not show, or export, other files of this machine. Files may be links to the `blobs` beside
// the folder where it is a snapshot in Hugging Face's cache (CACHE/models--A--B/snapshots/REVISION), which
// keeps files so. `name` stays below.
void require_contained(const std::filesystem::path& folder, const std::string& name, Blame blame);

}  // namespace zt
