// What this machine is, as the system tells it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace zt::measure {

struct Machine {
  std::string host, processor;
  int cores = 1;               // that this process may run on
  std::int64_t memory = 0;     // bytes of the machine
  std::int64_t available = 0;  // that the system could still give; -1: it does not say
  std::int64_t shared =
      -1;  // size of /dev/shm, through which MPI ranks of a node exchange; -1: there is none
  std::int64_t shared_free = -1;
};
Machine this_machine();

// The first line of what the MPI library calls itself. MPI need not be started.
std::string mpi_library();

// The file system that holds a path, which need not exist.
struct Disk {
  std::string kind;  // "ext4", "nfs", or its number in hexadecimal
  std::int64_t bytes = 0, free = 0;
};
Disk disk_of(const std::filesystem::path& path);

// How many cores all programs of this machine kept busy while this thread slept for so long; 0 where the system does not
// tell.
double busy_cores(double seconds);

// 2026-11-30T04:00:00Z, and back; -1 for what is not such a time.
std::string utc_text(std::int64_t seconds_since_1970);
std::int64_t seconds_of_utc(const std::string& text);

}  // namespace zt::measure
