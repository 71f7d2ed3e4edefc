// A driver for HDF5 files that are written once. HDF5 1.10 can't leave a file whose last writes fail: the id stays, and the
// program crashes when it ends. This one notes the first failure and swallows what follows, so that HDF5 always closes
// well; whoever writes asks for the failure. The files are those of HDF5's own default driver. It takes no locks: only
// this process knows the file's temporary name, and some file systems have no locks.
#pragma once

#include <hdf5.h>

#include <string>

namespace zt::checkpoint::hdf5 {

// What the system first refused: "write: No space left on device". Empty while all is well.
struct Refusal {
  std::string text;
};

// Makes files that are opened with `access` use the driver and report to `refusal`, which must outlive them. Negative when
// HDF5 refuses.
herr_t use_file_driver(hid_t access, Refusal* refusal);

}  // namespace zt::checkpoint::hdf5
