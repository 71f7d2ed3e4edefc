// manifest.json: what a checkpoint holds. It is written last, so a folder without it is no checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
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

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kModelFile = "model.h5";
inline constexpr const char* kCompanions = "hf/";  // begins the paths of the companions
std::string rank_file_name(int rank, int ranks);   // "rank-00003-of-00008.h5"
// Where a piece lies in a rank's file: "/model.norm.weight/first_moment".
std::string dataset_name(const std::string& tensor, Kind kind);

// Names of tensors become names of groups in HDF5, names of companions those of files: printable ASCII without '/', '%' and
// quotes, at most 255 bytes, not beginning with '.'.
bool plain_name(std::string_view name);
// The number of elements; nothing for a shape without dimensions, with more than 8, with one below 1, or of
// 2^60 elements and more.
std::optional<std::int64_t> checked_elements(const Shape& shape);

// What is wrong with it: files that aren't a checkpoint's, pieces that overlap, leave gaps or lie outside
// their file, moments without their partner. Empty when it is sound.
std::vector<std::string> faults_of(const Manifest& manifest);

// The whole text of manifest.json, with its own digest in it.
std::string to_text(const Manifest& manifest);
// Error(model) with every fault found, each as text; `where` names the file. Believes nothing.
Manifest manifest_from_text(std::string_view text, const std::string& where);

}  // namespace zt::checkpoint
