// How the chunks of a job are made: shared by rows and raw text.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/preparation.h"

namespace zt::data {

// Says how far long work is, every few seconds.
class ProgressLines {
 public:
  ProgressLines(const std::string& name, std::int64_t total_bytes, bool speaks);
  void at(std::int64_t done_bytes);

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  std::int64_t total_;
  bool speaks_;
  Clock::time_point last_ = Clock::now();
};

// Files as they were when their digests were taken, by which token files are found again.
class FileStates {
 public:
  explicit FileStates(const std::vector<TextFile>& files);
  // Throws Error(data) that names the first one that has been written to, replaced or removed since.
  void require_unchanged() const;

 private:
  using State = std::array<std::int64_t, 4>;  // inode, bytes, and the time of the last change
  static State state_of(const std::filesystem::path& path);
  std::vector<std::pair<std::filesystem::path, State>> states_;
};

// The chunks of one job that this rank still has to make.
class Chunks {
 public:
  Chunks(std::filesystem::path folder, FileStates sources, const Share& share);
  bool wanted(std::int64_t chunk) const;
  std::filesystem::path path(std::int64_t chunk) const;
  // To be asked before a chunk is finished, which would else be found under the digests of other files.
  void require_unchanged() const { sources_.require_unchanged(); }
  // Whether to end early.
  bool stopped() const { return share_.stops && share_.stops(); }

 private:
  std::filesystem::path folder_;
  FileStates sources_;
  Share share_;
};

// Errors of several sources or files (`what`) as one; one alone as it is; none does nothing.
void throw_together(const std::vector<Error>& errors, const char* what);

// Throws Error(model) that names the token for ids the model has no embedding row for.
void require_in_vocabulary(const std::vector<std::int32_t>& ids, const Encoding& encoding);

void prepare_rows(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress);
void prepare_text(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress);

}  // namespace zt::data
