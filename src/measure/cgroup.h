// What the system's control group leaves to this process: a container or a batch system sets it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zt::measure {

struct Group {
  std::vector<int>
      cores;  // the numbers of those that its processes may be bound to; empty where no group limits them
  std::int64_t memory = -1;  // its limit in bytes, the smallest of it and the groups above; -1: none
};
// Of cgroups version 2, else 1. `root` stands before /proc and /sys, for tests.
Group this_group(const std::filesystem::path& root = "/");

// "0-3,8" as numbers, and back; what is not such a list is empty.
std::vector<int> numbers_of(const std::string& list);
std::string list_of(const std::vector<int>& numbers);

}  // namespace zt::measure
