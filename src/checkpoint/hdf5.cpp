#include "checkpoint/hdf5.h"

#include <algorithm>
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

constexpr auto kHint = "is the folder writable, and is there space on the disk?";

Handle access_properties(const fs::path& file, Refusal* refusal) {
  const std::string doing = "set up access";
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, doing, file);
  check(use_file_driver(access.id(), refusal), doing, file);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), doing, file);
  // Pages of large datasets aren't shared with anything else, neither in the file nor in the system's cache.
  check(H5Pset_alignment(access.id(), /*threshold=*/1 << 16, /*alignment=*/1 << 12), doing, file);
  // HDF5 would let its cache of metadata grow to 32 MiB.
  H5AC_cache_config_t cache = {};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access.id(), &cache), doing, file);
  cache.max_size = 4 << 20;
  cache.min_size = std::min<std::size_t>(cache.min_size, cache.max_size);
  cache.initial_size = std::min<std::size_t>(cache.initial_size, cache.max_size);
  check(H5Pset_mdc_config(access.id(), &cache), doing, file);
  return access;
}

Handle create(const fs::path& file, Refusal* refusal) {
  const Handle access = access_properties(file, refusal);
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, timeless(H5P_FILE_CREATE, file).id(), access.id());
  if (id < 0 && !refusal->text.empty())
    throw Error(Blame::machine, cat("cannot make ", file.string(), ": ", refusal->text), kHint);
  return Handle(id, H5Fclose, "make a file", file);
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
  throw Error(Blame::machine, cat("cannot ", doing, " in ", file.string(), ": ", reason()), kHint);
}

NewFile::NewFile(const fs::path& path)
    : path_(path), refusal_(std::make_unique<Refusal>()), file_(create(path, refusal_.get())) {}

void NewFile::check() const {
  if (!refusal_->text.empty())
    throw Error(Blame::machine, cat("cannot write ", path_.string(), ": ", refusal_->text), kHint);
}

void NewFile::close() {
  file_.close("close", path_);
  check();
}

Handle timeless(hid_t property_class, const fs::path& file) {
  const std::string doing = "describe what is made";
  Handle creation(H5Pcreate(property_class), H5Pclose, doing, file);
  check(H5Pset_obj_track_times(creation.id(), false), doing, file);
  return creation;
}

Handle simple_space(const std::vector<hsize_t>& extent, const fs::path& file) {
  return Handle(H5Screate_simple(int(extent.size()), extent.data(), nullptr), H5Sclose, "describe a shape",
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
