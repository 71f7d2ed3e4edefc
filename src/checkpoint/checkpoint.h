// Reads checkpoints, on any number of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/descriptor.h"
#include "checkpoint/manifest.h"

namespace zt::checkpoint {

// One checkpoint, open for reading. Movable; one thread at a time. Rank files are opened when a piece is wanted,
// few are held open, and only the wanted bytes are read, straight to where they shall be: nothing is locked
// and HDF5 is not needed, since the manifest says where each piece lies.
class Checkpoint {
 public:
  // Reads and checks the manifest, and that each file is there with its size; no tensor yet. Error(model) with all
  // faults. `folder` is a step folder; for a folder that isn't one the error says what checkpoints are in it.
  static Checkpoint open(const std::filesystem::path& folder);
  const std::filesystem::path& folder() const { return folder_; }
  const RunState& state() const { return manifest_.state; }
  const Manifest& manifest() const { return manifest_; }
  std::int64_t bytes() const;  // of all files but the manifest

  // Strict both ways: every stored tensor and kind is needed, every needed one is stored, shapes are equal.
  // Error(model) with all differences.
  void check_against(std::span<const Need> needs) const;

  // Puts elements [first, first + out.size()) of a stored tensor into `out`. A piece that is read whole is checked
  // against its digest. Error(model) when bytes are missing or differ, naming file and dataset; Error(bug)
  // when the tensor has no such kind or range.
  void read(const std::string& tensor, Kind kind, std::int64_t first, std::span<float> out) const;

  // The faults of every `parts`-th file, from the `part`-th on, so that ranks can share the work: wrong digests,
  // naming file and dataset. Reads those files whole. Empty when every byte is right.
  std::vector<std::string> verify(int part = 0, int parts = 1) const;

  // The files of hf/: config.json and the tokenizer's. Error(model) when one's digest is wrong.
  std::map<std::string, std::string> companions() const;

 private:
  struct OpenFile {
    int rank;
    Descriptor descriptor;
  };
  Checkpoint() = default;
  const Descriptor& file_of(int rank) const;
  void read_from(const StoredPiece& piece, std::int64_t first, std::span<float> out,
                 const std::string& dataset) const;
  std::filesystem::path folder_;
  Manifest manifest_;
  mutable std::list<OpenFile> open_;  // most recently used first
};

// A folder that is, or looks as if it had been meant as, a checkpoint.
struct Listed {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::optional<RunState> state;  // absent when `fault` says why
  std::int64_t bytes = 0;
  std::string fault;
  bool good() const { return fault.empty(); }
};

// What is in OUTPUT_DIR/checkpoints, by step number; unfinished and unreadable ones with the reason in `fault`.
// Good means as open() sees it: digests aren't checked. An absent folder holds none.
std::vector<Listed> list(const std::filesystem::path& folder);

}  // namespace zt::checkpoint
