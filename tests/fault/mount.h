// File systems of a test's own, mounted in a namespace of its process, so that nothing is left however the test ends.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/text.h"

namespace zt::test {

inline bool own_mount_namespace() {
  static const bool own =
      ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return own;
}

class Mount {
 public:
  // A file system in memory of so many kilobytes.
  Mount(const std::filesystem::path& at, int kilobytes) : at_(at) {
    std::filesystem::create_directories(at);
    made_ = own_mount_namespace() &&
            ::mount("zerotrain-test", at.c_str(), "tmpfs", 0, size(kilobytes).c_str()) == 0;
  }
  // The folder itself, to be read only.
  explicit Mount(const std::filesystem::path& at) : at_(at) {
    made_ = own_mount_namespace() && ::mount(at.c_str(), at.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
            ::mount(nullptr, at.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
  }
  ~Mount() {
    if (made_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  void resize(int kilobytes) const {
    REQUIRE(::mount(nullptr, at_.c_str(), nullptr, MS_REMOUNT, size(kilobytes).c_str()) == 0);
  }
  // Says why the test is skipped.
  bool made() const {
    if (!made_) MESSAGE("skipped: mounting ", at_.string(), " takes the rights of root");
    return made_;
  }

 private:
  static std::string size(int kilobytes) { return cat("size=", kilobytes, "k"); }
  std::filesystem::path at_;
  bool made_ = false;
};

// An ext4 of 64 MiB in a file, mounted at folder/name.
class LoopDisk {
 public:
  LoopDisk(const std::filesystem::path& folder, const std::string& name)
      : image_(folder / (name + ".img")), at_(folder / name) {
    std::filesystem::create_directories(at_);
    std::ofstream(image_).close();
    std::filesystem::resize_file(image_, 64 << 20);
    made_ = own_mount_namespace() && does(cat("mkfs.ext4 -q -F -m 0 ", image_.string())) && mount();
  }
  ~LoopDisk() {
    if (made_) unmount();
  }
  LoopDisk(const LoopDisk&) = delete;
  LoopDisk& operator=(const LoopDisk&) = delete;

  bool made() const {
    if (!made_) MESSAGE("skipped: an ext4 in a file can't be mounted here");
    return made_;
  }
  // Leaves about so many bytes free.
  void fill_but(std::int64_t bytes) const {
    const auto free = static_cast<std::int64_t>(std::filesystem::space(at_).available);
    std::ofstream out(at_ / "ballast");
    const std::string block(1 << 16, 'b');
    for (std::int64_t left = free - bytes; left > 0; left -= std::int64_t(block.size())) out << block;
    out.close();
    REQUIRE(bool(out));
  }
  void empty() const { std::filesystem::remove(at_ / "ballast"); }
  // What a disk with errors does to its file system: from now on nothing can be written, to open files either.
  bool turn_read_only() const {
    (void)does(cat("mount -o remount,abort ", at_.string()));
    return !std::ofstream(at_ / "probe");
  }
  bool mount_again() const { return unmount() && mount(); }

 private:
  static bool does(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  bool mount() const { return does(cat("mount -o loop ", image_.string(), " ", at_.string())); }
  bool unmount() const { return ::umount2(at_.c_str(), 0) == 0 || ::umount2(at_.c_str(), MNT_DETACH) == 0; }
  std::filesystem::path image_, at_;
  bool made_ = false;
};

}  // namespace zt::test
