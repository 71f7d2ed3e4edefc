#include "measure/cgroup.h"

#include <algorithm>
#include <fstream>

#include "base/text.h"

namespace zt::measure {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return std::string(trim(line));
}

// This process's group below the hierarchy of a controller: "" is version 2's only one.
std::string group_of(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::vector<std::string> names = split(line.substr(first + 1, second - first - 1), ',');
    if (std::ranges::find(names, controller) != names.end()) return line.substr(second + 1);
  }
  return "";
}

// The file of the innermost group that has it. Inside a container the path may be the outer one, which isn't there.
std::vector<std::string> values(const fs::path& base, const std::string& group, const std::string& file) {
  std::vector<std::string> found;
  fs::path at = fs::path(group).relative_path();
  for (;; at = at.parent_path()) {
    if (const std::string line = first_line(base / at / file); !line.empty()) found.push_back(line);
    if (at.empty()) return found;
  }
}

struct Hierarchy {
  const char *folder, *cores_of, *cores, *memory_folder, *memory_of, *memory;
};
constexpr Hierarchy kHierarchies[] = {
    {"sys/fs/cgroup", "", "cpuset.cpus.effective", "sys/fs/cgroup", "", "memory.max"},
    {"sys/fs/cgroup/cpuset", "cpuset", "cpuset.effective_cpus", "sys/fs/cgroup/memory", "memory",
     "memory.limit_in_bytes"},
};
// Version 1 writes "no limit" as a number near the largest.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

}  // namespace

Group this_group(const fs::path& root) {
  Group group;
  for (const Hierarchy& h : kHierarchies) {
    const auto cores = values(root / h.folder, group_of(root, h.cores_of), h.cores);
    if (group.cores.empty() && !cores.empty()) group.cores = numbers_of(cores.front());
    for (const std::string& line : values(root / h.memory_folder, group_of(root, h.memory_of), h.memory)) {
      std::int64_t limit = 0;
      if (!parse_int(line, &limit) || limit <= 0 || limit >= kNoLimit) continue;
      group.memory = group.memory < 0 ? limit : std::min(group.memory, limit);
    }
  }
  return group;
}

std::vector<int> numbers_of(const std::string& list) {
  constexpr std::int64_t kMost = 1 << 16;
  std::vector<int> numbers;
  for (const std::string& part : split(list, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    std::int64_t first = 0, last = 0;
    if (ends.size() > 2 || !parse_int(ends.front(), &first) || !parse_int(ends.back(), &last)) return {};
    if (first < 0 || last < first || last >= kMost) return {};
    for (std::int64_t n = first; n <= last; ++n) numbers.push_back(static_cast<int>(n));
  }
  return numbers;
}

std::string list_of(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    parts.push_back(end - i == 1 ? cat(numbers[i]) : cat(numbers[i], "-", numbers[end - 1]));
    i = end;
  }
  return join(parts, ",");
}

}  // namespace zt::measure
