// What is tried on this machine to find out what would go wrong: its folder, its limits, its graphics driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace zt::measure {

// What became of a small file in a folder.
struct FolderCheck {
  std::string fault;       // why no file can be written there; "" where one can
  std::string lock_fault;  // why a second program is not kept out by flock(2); "" where it is
  bool answers = true;     // within the seconds that were given to it
  double write = 0;        // bytes per second until they were on the disk; 0: not measured
};
// Writes at most `bytes`, for about a second at most. The file has no name when this returns. Where the file system does
// not answer within `patience_seconds`, its thread is left behind.
FolderCheck check_folder(const std::filesystem::path& folder, std::int64_t bytes, double patience_seconds);

// The CUDA driver, asked by its own library. Nothing is linked.
struct Gpus {
  bool library = false;  // libcuda or libcudart can be loaded
  bool files = false;    // /dev/nvidia0 is there
  int count = 0;         // devices that the driver tells
};
Gpus find_gpus();

// Of this process; -1: no limit.
struct Limits {
  std::int64_t open_files = -1, locked_memory = -1, core_file = -1;
};
Limits this_limits();

// Bytes that lie in swap, of so many; 0 of 0 where there is none.
struct Swap {
  std::int64_t used = 0, size = 0;
};
Swap this_swap();

// Whether programs may be started from files of this folder's file system.
bool may_execute(const std::filesystem::path& folder);
// Whether a shell would find this program.
bool in_path(const std::string& program);

}  // namespace zt::measure
