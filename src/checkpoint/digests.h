// Digests of a file and of regions in it, in one reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace zt::checkpoint {

// Bytes [begin, end) of a file.
struct Region {
  std::int64_t begin = 0, end = 0;
};

struct FileDigests {
  std::int64_t bytes = 0;
  std::string whole;
  std::vector<std::string> regions;  // in the order asked for
};

// XXH3-128 as digest_of gives it. Regions are in order and don't overlap; one that ends behind the file has the digest
// of what is there. Memory: 1 MiB. `blame` as in read_text_file.
FileDigests digests_of_file(const std::filesystem::path& file, const std::vector<Region>& regions,
                            Blame blame);

}  // namespace zt::checkpoint
