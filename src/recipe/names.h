// Names a recipe may hold by mistake: keys of later versions, other tools' names, typing errors.
#pragma once

#include <string>
#include <vector>

namespace zt::recipe {

// True for a key ("checkpoint.every_steps") or, with `word`, for a value ("run.deterministic", "false") of the
// documented interface that this version doesn't have. List positions in `path` don't matter.
bool comes_later(const std::string& path, const std::string& word = "");

// What to say about the unknown key `path`, whose section has the keys `siblings`.
std::string unknown_key(const std::string& path, const std::vector<std::string>& siblings);

// Every foreign name and the full path (or advice) it leads to, for tests.
std::vector<std::pair<std::string, std::string>> foreign_names();

}  // namespace zt::recipe
