// Writes a complete Hugging Face model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor/dtype.h"

namespace zt::spec {
struct ModelSpec;
struct TensorSpec;
}  // namespace zt::spec

namespace zt::exchange {

// Puts elements [first, first + count) of a logical tensor, row-major, into `dst` as values of `dtype`.
using TensorReader = std::function<void(const spec::TensorSpec& tensor, std::int64_t first,
                                        std::int64_t count, void* dst, Dtype dtype)>;

struct ExportOptions {
  Dtype dtype = Dtype::bf16;  // f32, bf16 or f16
  std::int64_t shard_bytes =
      std::int64_t{5'000'000'000};  // tensor bytes a file holds at most; a larger tensor is alone
};

// Makes `folder`: config.json (every key of `config`, torch_dtype set to what the files hold),
// model.safetensors or model-0000k-of-0000n.safetensors with their index, and `companions` (name to bytes:
// tokenizer files, chat template, generation_config.json; see companion_files()). The folder is written
// beside `folder` and renamed, so it is complete or absent; an earlier export is replaced, any other folder
// with files in it is refused (Error(usage)). Tied embeddings are written once. Memory used: one piece of at
// most 64 MiB.
void export_model(const std::filesystem::path& folder, const spec::ModelSpec& model,
                  const nlohmann::json& config, const ExportOptions& options, const TensorReader& read,
                  const std::map<std::string, std::string>& companions = {});

}  // namespace zt::exchange
