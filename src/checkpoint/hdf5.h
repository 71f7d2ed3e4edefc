// The little of HDF5 that writing needs: owned handles, checked calls, one caller at a time.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/file_driver.h"

namespace zt::checkpoint::hdf5 {

// Debian's HDF5 may be used by one thread at a time; whoever holds this may use it.
class Use {
 public:
  Use();

 private:
  std::unique_lock<std::mutex> lock_;
};

// Starts the library. An HDF5 built for MPI looks at MPI when it starts, so this belongs to the thread that uses MPI.
void start();

// Throws Error(machine): what couldn't be done in which file, with HDF5's own reason.
[[noreturn]] void fail(const std::string& doing, const std::filesystem::path& file);

inline void check(herr_t status, const std::string& doing, const std::filesystem::path& file) {
  if (status < 0) fail(doing, file);
}

// Owns an HDF5 id. Move-only. close() reports a failure, the destructor does not: then another error is under way.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close_with, const std::string& doing, const std::filesystem::path& file)
      : id_(id), close_(close_with) {
    if (id_ < 0) fail(doing, file);
  }
  ~Handle() {
    if (id_ >= 0) (void)close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;

  hid_t id() const { return id_; }
  void close(const std::string& doing, const std::filesystem::path& file) {
    check(close_(std::exchange(id_, -1)), doing, file);
  }

 private:
  hid_t id_;
  Close close_;
};

// A new file, readable by HDF5 1.8 (1.10 for virtual datasets). What the disk refuses is thrown by check() and close(),
// not by the calls that write.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  hid_t id() const { return file_.id(); }
  void check() const;
  void close();

 private:
  std::filesystem::path path_;
  std::unique_ptr<Refusal> refusal_;  // outlives file_
  Handle file_;
};

// Properties of something to be made, of this class (H5P_DATASET_CREATE, ...), without the times that HDF5 would note: the
// same state makes the same bytes.
Handle timeless(hid_t property_class, const std::filesystem::path& file);
Handle simple_space(const std::vector<hsize_t>& extent, const std::filesystem::path& file);

void write_attribute(hid_t object, const char* name, std::string_view text,
                     const std::filesystem::path& file);
void write_attribute(hid_t object, const char* name, std::span<const std::int64_t> numbers,
                     const std::filesystem::path& file);
void write_attribute(hid_t object, const char* name, std::int64_t number, const std::filesystem::path& file);

}  // namespace zt::checkpoint::hdf5
