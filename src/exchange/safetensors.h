// The safetensors format: 8 bytes little-endian header length, a JSON header, then the tensors' bytes.
// Source: https://github.com/huggingface/safetensors, section "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace zt::exchange {

using Shape = std::vector<std::int64_t>;

std::int64_t elements_of(const Shape& shape);  // 1 for a scalar
std::string text_of(const Shape& shape);       // "[2048, 128]"

// One tensor of a file, as its header describes it.
struct StoredTensor {
  std::string name;
  std::string_view dtype_name;  // the file's word: "F32", "BF16", "I64", ...
  std::optional<Dtype> dtype;   // set for the formats weights are read from: F32, F16, BF16
  Shape shape;
  std::int64_t begin = 0, end = 0;  // bytes, counted from the first data byte
};

// A memory-mapped file. The constructor believes nothing: header length at most 100 MB and inside the file; a
// JSON object with unique names; known formats; non-negative shapes whose size doesn't overflow and equals
// the range; ranges that tile the data exactly. All tensors' faults are reported in one Error(model) with
// file, names and numbers. Whatever the file holds, opening it takes less than 100 MB.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* find(std::string_view name) const;  // null when absent
  // The tensor's bytes, mapped, possibly unaligned; only touched pages are read from disk.
  std::span<const std::byte> bytes(const StoredTensor& tensor) const;
  // Elements [first, first + count) converted to `dst_dtype` (f32, bf16 or f16) into `dst`. Error(model) when
  // the stored format isn't one of weights.
  void read(const StoredTensor& tensor, std::int64_t first, std::int64_t count, void* dst,
            Dtype dst_dtype) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

// A tensor to be written.
struct NamedTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
};

// Writes a file of named logical tensors, by pieces and never holding more than a piece. The bytes lie in the
// order of `tensors`; tensors may be filled in any order, each from its start to its end. The file is
// complete or absent: it appears under its name only in finish(), which refuses (Error(bug)) while any tensor
// lacks a byte.
class SafetensorsWriter {
 public:
  // Error(bug) for a name given twice, Error(machine) when the file can't be made or the disk is full.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                    const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();  // an unfinished file is removed
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next bytes of tensor `name`. Error(bug) for an unknown name or more bytes than the tensor has.
  void append(const std::string& name, std::span<const std::byte> piece);
  void finish();

 private:
  struct Range {
    std::string name;
    std::int64_t next, end;  // bytes, counted from the start of the file
  };
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool finished_ = false;
  std::vector<Range> ranges_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace zt::exchange
