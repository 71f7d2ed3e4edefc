// A Hugging Face model folder as a source of weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "exchange/binding.h"
#include "exchange/safetensors.h"
#include "tensor/dtype.h"

namespace zt::spec {
struct ModelSpec;
struct TensorSpec;
}  // namespace zt::spec

namespace zt::exchange {

// The config.json of a model folder (or the file itself, when `path` names one).
nlohmann::json read_config(const std::filesystem::path& path);

// The files that travel with a model and hold no weights (tokenizer, chat template, generation settings):
// name to bytes, those that are there.
std::map<std::string, std::string> companion_files(const std::filesystem::path& folder);

// config.json plus model.safetensors, or model.safetensors.index.json and its shards. Files are mapped, so a
// rank that reads only its ranges touches only those pages.
class ModelFolder {
 public:
  // Opens the folder and checks every header and the index: paths stay inside the folder, every shard is
  // there, holds exactly the tensors the index says. All faults in one Error(model).
  explicit ModelFolder(const std::filesystem::path& folder);

  // Finds every tensor of `model` in the files, strictly both ways: each needed tensor is there with its
  // shape, each stored tensor is needed or known to be ignorable (causal masks, rotary tables). Names with
  // and without the prefix "transformer." or "model." are the same. A head stored beside tied embeddings must
  // equal them. All faults in one Error(model). To be called once before read().
  void bind(const spec::ModelSpec& model);

  // Elements [first, first + dst.size()) of a bound tensor, row-major, exactly as stored, converted to the
  // type of dst.
  void read(const spec::TensorSpec& tensor, std::int64_t first, std::span<float> dst) const;
  void read(const spec::TensorSpec& tensor, std::int64_t first, std::span<bf16> dst) const;
  void read(const std::string& name, std::int64_t first, std::int64_t count, void* dst,
            Dtype dst_dtype) const;

  const std::filesystem::path& path() const { return path_; }
  const nlohmann::json& config() const { return config_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  // The format the weights are stored in; of several, the widest. (config.json's torch_dtype is often wrong.)
  Dtype stored_dtype() const;

 private:
  std::filesystem::path path_;
  nlohmann::json config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> bound_;
};

}  // namespace zt::exchange
