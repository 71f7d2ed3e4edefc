// How the chunks of a job are made: shared by rows and raw text.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

// The chunks of one job that this rank still has to make.
class Chunks {
 public:
  Chunks(std::filesystem::path folder, const Share& share);
  bool wanted(std::int64_t chunk) const;
  std::filesystem::path path(std::int64_t chunk) const;

 private:
  std::filesystem::path folder_;
  Share share_;
};

// Throws Error(model) that names the token for ids the model has no embedding row for.
void require_in_vocabulary(const std::vector<std::int32_t>& ids, const Encoding& encoding);

void prepare_rows(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress);
void prepare_text(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress);

}  // namespace zt::data
