#include "checkpoint/hdf5.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace zt::checkpoint::hdf5 {
namespace {

namespace fs = std::filesystem;

std::mutex& the_mutex() {
  static std::mutex mutex;
  return mutex;
}

// The deepest entry of HDF5's error stack names the system's reason; the others only say who called whom.
std::string reason() {
  std::string deepest;
  const auto keep = [](unsigned, const H5E_error2_t* entry, void* out) -> herr_t {
    if (entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
    return 0;
  };
  (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep, &deepest);
  (void)H5Eclear2(H5E_DEFAULT);
  return deepest.empty() ? "HDF5 gives no reason" : std::string(trim(deepest));
}

std::string hint_for(const std::string& why) {
  if (why.find("lock") != why.npos)
    return "the file system may have no locks: set HDF5_USE_FILE_LOCKING=FALSE in the environment; "
           "checkpoints don't need them";
  return "is the folder writable, and is there space on the disk?";
}

}  // namespace

Use::Use() : lock_(the_mutex()) {
  // Its stacks go into our errors instead.
  (void)H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void start() {
  const Use use;
  if (H5open() < 0) throw Error(Blame::machine, cat("HDF5 does not start: ", reason()));
}

void fail(const std::string& doing, const fs::path& file) {
  const std::string why = reason();
  throw Error(Blame::machine, cat("cannot ", doing, " in ", file.string(), ": ", why), hint_for(why));
}

Handle simple_space(const std::vector<hsize_t>& extent, const fs::path& file) {
  return Handle(H5Screate_simple(int(extent.size()), extent.data(), nullptr), H5Sclose, "describe a shape",
                file);
}

Handle create_file(const fs::path& file) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set up access", file);
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "set up access", file);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), "set up access", file);
  // Only this process knows the file's temporary name, so a lock guards nothing; and some file systems have none.
  check(H5Pset_file_locking(access.id(), /*use=*/false, /*ignore_when_disabled=*/true), "set up access",
        file);
  // HDF5 would let its cache of metadata grow to 32 MiB.
  H5AC_cache_config_t cache = {};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access.id(), &cache), "set up access", file);
  cache.max_size = 4 << 20;
  cache.min_size = std::min<std::size_t>(cache.min_size, cache.max_size);
  cache.initial_size = std::min<std::size_t>(cache.initial_size, cache.max_size);
  check(H5Pset_mdc_config(access.id(), &cache), "set up access", file);
  return Handle(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose, "create a file",
                file);
}

static void write_attribute(hid_t object, const char* name, const Handle& space, hid_t stored, hid_t given,
                            const void* data, const fs::path& file) {
  const std::string doing = cat("write attribute ", name);
  Handle attribute(H5Acreate2(object, name, stored, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, doing,
                   file);
  check(H5Awrite(attribute.id(), given, data), doing, file);
  attribute.close(doing, file);
}

void write_attribute(hid_t object, const char* name, std::string_view text, const fs::path& file) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "describe a text", file);
  check(H5Tset_size(type.id(), std::max<std::size_t>(text.size(), 1)), "describe a text", file);
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "describe a text", file);
  const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, "describe a text", file);
  const std::string padded = text.empty() ? std::string(1, '\0') : std::string(text);
  write_attribute(object, name, scalar, type.id(), type.id(), padded.data(), file);
}

void write_attribute(hid_t object, const char* name, std::span<const std::int64_t> numbers,
                     const fs::path& file) {
  const Handle space = simple_space({hsize_t(numbers.size())}, file);
  write_attribute(object, name, space, H5T_STD_I64LE, H5T_NATIVE_INT64, numbers.data(), file);
}

void write_attribute(hid_t object, const char* name, std::int64_t number, const fs::path& file) {
  const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, "describe a number", file);
  write_attribute(object, name, scalar, H5T_STD_I64LE, H5T_NATIVE_INT64, &number, file);
}

}  // namespace zt::checkpoint::hdf5
