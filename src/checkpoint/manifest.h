// manifest.json: what a checkpoint holds. It is written last, so a folder without it is no checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/state.h"

namespace zt::checkpoint {

// A piece as it lies in a rank's file.
struct StoredPiece {
  int rank = 0;
  std::int64_t first = 0, count = 0;  // elements of the tensor
  std::int64_t offset = 0;            // bytes from the start of the rank's file
  std::string digest;                 // of its bytes, as digest_of
  bool operator==(const StoredPiece&) const = default;
};

struct StoredTensor {
  Shape shape;
  std::array<std::vector<StoredPiece>, 3>
      pieces;  // by Kind, ordered by `first`; empty: the kind is not there
  const std::vector<StoredPiece>& of(Kind kind) const { return pieces[std::size_t(kind)]; }
  std::vector<StoredPiece>& of(Kind kind) { return pieces[std::size_t(kind)]; }
  bool operator==(const StoredTensor&) const = default;
};

struct StoredFile {
  std::int64_t bytes = 0;
  std::string digest;
  bool operator==(const StoredFile&) const = default;
};

struct Manifest {
  RunState state;
  std::map<std::string, StoredFile> files;  // by path below the checkpoint's folder, with '/'
  std::map<std::string, StoredTensor> tensors;
  bool operator==(const Manifest&) const = default;
};

std::string rank_file_name(int rank, int ranks);  // "rank-00003-of-00008.h5"

// What is wrong with it: files that aren't a checkpoint's, pieces that overlap, leave gaps or lie outside
// their file, moments without their partner. Empty when it is sound.
std::vector<std::string> faults_of(const Manifest& manifest);

// The whole text of manifest.json, with its own digest in it.
std::string to_text(const Manifest& manifest);
// Error(model) with every fault found, each as text; `where` names the file. Believes nothing.
Manifest manifest_from_text(std::string_view text, const std::string& where);

}  // namespace zt::checkpoint
