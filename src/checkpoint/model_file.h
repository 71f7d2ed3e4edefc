// model.h5: each weight under its Hugging Face name, as if nothing were sharded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/manifest.h"

namespace zt::checkpoint {

// A box of a tensor: `count[d]` indices from `start[d]` on, in every dimension d. Its elements in row-major order are
// the elements [offset, offset + size) of a flat range.
struct Box {
  std::vector<std::uint64_t> start, count;
  std::int64_t offset = 0, size = 0;
  bool operator==(const Box&) const = default;
};

// A flat range of a row-major tensor as boxes in its order: at most 2 d - 1 of them for d dimensions (the rest of
// a row, whole rows, the beginning of a row).
std::vector<Box> boxes(const Shape& shape, std::int64_t first, std::int64_t count);

// Writes virtual datasets over the `value` datasets of the rank files, which are named relative to the file, so the
// folder can be moved. What no rank file gives reads as NaN. Error(machine).
void write_model_file(const std::filesystem::path& file, const Manifest& manifest);

}  // namespace zt::checkpoint
