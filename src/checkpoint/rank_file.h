// The file of one rank: a group for each tensor, in it a dataset for each kind.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace zt::checkpoint {

// What one rank has written, for the manifest.
struct RankRecord {
  struct Part {
    std::string tensor;
    Shape shape;
    Kind kind = Kind::value;
    StoredPiece piece;
  };
  StoredFile file;
  std::vector<Part> parts;
};

// Writes, syncs, and reads back to compare. Error(machine) when the disk refuses or gives back other bytes, Error(bug)
// for pieces that can't be: names, shapes or ranges that aren't a tensor's, a tensor and kind twice.
RankRecord write_rank_file(const std::filesystem::path& file, int rank, std::span<const Piece> pieces);

// As text, for the way to rank 0.
std::string to_text(const RankRecord& record);
RankRecord record_from_text(const std::string& text);

}  // namespace zt::checkpoint
