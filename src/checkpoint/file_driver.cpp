#include "checkpoint/file_driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace zt::checkpoint::hdf5 {
namespace {

constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

// What fapl_size bytes of HDF5's driver information hold.
struct Info {
  Refusal* refusal;
};

// HDF5 owns it between open and close; its public part comes first.
struct File {
  H5FD_t base;
  int descriptor;
  haddr_t allocated, length;
  Refusal* refusal;

  bool refused() const { return !refusal->text.empty(); }
  void refuse(const char* doing) {
    if (!refused()) refusal->text = std::string(doing) + ": " + std::strerror(errno);
  }
};

File& of(H5FD_t* file) { return *reinterpret_cast<File*>(file); }
const File& of(const H5FD_t* file) { return *reinterpret_cast<const File*>(file); }

H5FD_t* open_file(const char* name, unsigned flags, hid_t access, haddr_t) {
  const auto* const info = static_cast<const Info*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  int mode = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
  if ((flags & H5F_ACC_CREAT) != 0) mode |= O_CREAT;
  if ((flags & H5F_ACC_TRUNC) != 0) mode |= O_TRUNC;
  auto* const file = new (std::nothrow) File{};
  if (file == nullptr) return nullptr;
  file->refusal = info->refusal;
  file->descriptor = ::open(name, mode | O_CLOEXEC, 0666);
  const off_t end = file->descriptor < 0 ? -1 : ::lseek(file->descriptor, 0, SEEK_END);
  if (end >= 0) {
    file->length = haddr_t(end);
    return &file->base;
  }
  // Before it creates a file, HDF5 looks whether it is there.
  if ((flags & H5F_ACC_CREAT) != 0) file->refuse("create");
  if (file->descriptor >= 0) ::close(file->descriptor);
  delete file;
  return nullptr;
}

herr_t close_file(H5FD_t* base) {
  const std::unique_ptr<File> file(&of(base));
  if (::close(file->descriptor) != 0) file->refuse("close");
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_allocated(const H5FD_t* file, H5FD_mem_t) { return of(file).allocated; }
haddr_t get_length(const H5FD_t* file, H5FD_mem_t) { return of(file).length; }
herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).allocated = address;
  return 0;
}

// Bytes behind the end of the file are zeros, as in HDF5's own drivers.
herr_t read_file(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t at, size_t size, void* buffer) {
  auto* out = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t n = ::pread(of(base).descriptor, out, size, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      of(base).refuse("read");
      return -1;
    }
    if (n == 0) break;
    at += haddr_t(n);
    out += n;
    size -= size_t(n);
  }
  std::memset(out, 0, size);
  return 0;
}

herr_t write_file(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t at, size_t size, const void* buffer) {
  File& file = of(base);
  const auto* from = static_cast<const char*>(buffer);
  file.length = std::max(file.length, at + size);
  while (size > 0 && !file.refused()) {
    const ssize_t n = ::pwrite(file.descriptor, from, size, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      file.refuse("write");
      break;
    }
    at += haddr_t(n);
    from += n;
    size -= size_t(n);
  }
  return 0;
}

herr_t truncate_file(H5FD_t* base, hid_t, hbool_t) {
  File& file = of(base);
  if (file.length == file.allocated) return 0;
  if (!file.refused() && ::ftruncate(file.descriptor, off_t(file.allocated)) != 0)
    file.refuse("set the length");
  file.length = file.allocated;
  return 0;
}

// Members by name: versions of HDF5 differ in their order.
H5FD_class_t make_driver() {
  H5FD_class_t c = {};
  c.name = "zerotrain";
  c.maxaddr = kMaxAddress;
  c.fc_degree = H5F_CLOSE_STRONG;
  c.fapl_size = sizeof(Info);
  c.open = open_file;
  c.close = close_file;
  c.query = query;
  c.get_eoa = get_allocated;
  c.set_eoa = set_allocated;
  c.get_eof = get_length;
  c.read = read_file;
  c.write = write_file;
  c.truncate = truncate_file;
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), c.fl_map);
  return c;
}

}  // namespace

herr_t use_file_driver(hid_t access, Refusal* refusal) {
  static const H5FD_class_t driver = make_driver();
  const hid_t id = H5FDregister(&driver);
  if (id < 0) return -1;
  const Info info{refusal};
  const herr_t status = H5Pset_driver(access, id, &info);
  // The access list holds on to it.
  return H5FDunregister(id) < 0 ? -1 : status;
}

}  // namespace zt::checkpoint::hdf5
