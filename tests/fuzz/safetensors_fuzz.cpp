// Any bytes as a safetensors file (first byte 0), as its header with the right length before it and some data behind it
// (1), or as the index of a folder with two sound files (2).
#include <nlohmann/json.hpp>

#include "exchange/model_folder.h"
#include "exchange/safetensors.h"
#include "hostile.h"

using namespace zt;

namespace {

constexpr fuzz::Bound kBound{1 << 20, 512};

std::string with_length(const std::string& header, std::size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out + header + std::string(data_bytes, '\x3f');
}

void read_all(const exchange::SafetensorsFile& file, std::size_t file_bytes) {
  std::int64_t covered = 0;
  for (const exchange::StoredTensor& tensor : file.tensors()) {
    covered += tensor.end - tensor.begin;
    FUZZ_CHECK(file.find(tensor.name) == &tensor);
    FUZZ_CHECK(std::int64_t(file.bytes(tensor).size()) == tensor.end - tensor.begin);
    if (!tensor.dtype) continue;
    const std::int64_t count = exchange::elements_of(tensor.shape);
    std::vector<float> values(std::size_t(count) + 1);
    file.read(tensor, 0, count, values.data(), Dtype::f32);
    file.read(tensor, count, 0, values.data(), Dtype::f32);
  }
  FUZZ_CHECK(covered <= std::int64_t(file_bytes));
}

void read_file(const std::string& bytes) {
  const auto path = fuzz::scratch().write("model.safetensors", bytes);
  fuzz::survives(bytes.size(), kBound, Blame::model,
                 [&] { read_all(exchange::SafetensorsFile(path), bytes.size()); });
}

void read_index(const std::string& bytes) {
  const fuzz::Folder& folder = fuzz::scratch();
  static const bool made = [&folder] {
    std::filesystem::create_directory(folder.path() / "sub");
    folder.write("config.json", "{}");
    folder.write("a.safetensors",
                 with_length(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
    folder.write("sub/b.safetensors",
                 with_length(R"({"y":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})", 2));
    return true;
  }();
  FUZZ_CHECK(made);
  std::filesystem::remove(folder.path() / "model.safetensors");
  folder.write("model.safetensors.index.json", bytes);
  fuzz::survives(bytes.size(), kBound, Blame::model, [&] {
    const exchange::ModelFolder model(folder.path());
    for (const auto& file : model.files()) {
      const std::string name = std::filesystem::canonical(file->path());
      FUZZ_CHECK(name.starts_with(std::filesystem::canonical(folder.path()).string() + "/"));
    }
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, bytes] = fuzz::input_of(data, size);
  switch (choice % 3) {
    case 0: read_file(bytes); break;
    case 1: read_file(with_length(bytes, 64)); break;
    case 2: read_index(bytes); break;
  }
  return 0;
}
