#include "measure/machine.h"

#include <mpi.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/host.h"
#include "base/text.h"
#include "device/arena.h"
#include "device/cores.h"

namespace zt::measure {
namespace {

// The value of the first line "KEY : value" of a file of the system, "" where there is none.
std::string value_of(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!starts_with(line, key)) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

struct Kind {
  long magic;
  const char* name;
};
// The numbers of statfs(2) for file systems that runs meet.
constexpr std::array kKinds = {
    Kind{0xef53, "ext4"},       Kind{0x58465342, "xfs"},     Kind{0x9123683e, "btrfs"},
    Kind{0x01021994, "tmpfs"},  Kind{0x794c7630, "overlay"}, Kind{0x6969, "nfs"},
    Kind{0x0bd00bd0, "lustre"}, Kind{0x47504653, "gpfs"},    Kind{0x2fc12fc1, "zfs"},
    Kind{0x65735546, "fuse"},   Kind{0x00c36400, "ceph"},    Kind{0x19830326, "beegfs"},
};

}  // namespace

Machine this_machine() {
  Machine m;
  m.host = host_name();
  m.processor = value_of("/proc/cpuinfo", "model name");
  m.cores = device::cores();
  m.memory = device::memory_info("MemTotal");
  m.available = device::available_bytes();
  struct statvfs shared = {};
  if (::statvfs("/dev/shm", &shared) == 0) {
    m.shared = static_cast<std::int64_t>(shared.f_blocks * shared.f_frsize);
    m.shared_free = static_cast<std::int64_t>(shared.f_bavail * shared.f_frsize);
  }
  return m;
}

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "";
  text.resize(static_cast<std::size_t>(length));
  return split(split(text, '\n').front(), ',').front();
}

Disk disk_of(const std::filesystem::path& path) {
  std::error_code none;
  std::filesystem::path there = std::filesystem::absolute(path, none);
  while (!std::filesystem::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  struct statfs info = {};
  if (::statfs(there.c_str(), &info) != 0) return {"unknown", 0, 0};
  Disk disk{fmt::format("{:#x}", static_cast<unsigned long>(info.f_type)),
            static_cast<std::int64_t>(info.f_blocks) * info.f_bsize,
            static_cast<std::int64_t>(info.f_bavail) * info.f_bsize};
  for (const Kind& kind : kKinds)
    if (kind.magic == static_cast<long>(info.f_type)) disk.kind = kind.name;
  return disk;
}

// Seconds that all cores have worked since the machine began: the first numbers of /proc/stat, of which the fourth and
// fifth are idling and waiting for disks.
static double worked_seconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  in >> cpu;
  double sum = 0;
  for (int i = 0; i < 7; ++i) {
    double ticks = 0;
    in >> ticks;
    if (i != 3 && i != 4) sum += ticks;
  }
  return in ? sum / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
}

double busy_cores(double seconds) {
  const double before = worked_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return std::max(0.0, worked_seconds() - before) / seconds;
}

std::string utc_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts = {};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::int64_t seconds_of_utc(const std::string& text) {
  std::tm parts = {};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end == nullptr || *end != '\0' ? -1 : static_cast<std::int64_t>(::timegm(&parts));
}

}  // namespace zt::measure
