#include "exchange/model_folder.h"

#include <algorithm>
#include <cstring>

#include "base/contained.h"
#include "base/error.h"
#include "base/text.h"
#include "exchange/binding.h"
#include "exchange/json.h"
#include "exchange/words.h"
#include "spec/model.h"

namespace zt::exchange {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kSingle = "model.safetensors";
constexpr auto kIndex = "model.safetensors.index.json";
constexpr const char* kCompanions[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer.model",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "generation_config.json"};

[[noreturn]] void no_weights(const fs::path& folder) {
  std::string hint = "give the folder that holds the model's files";
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fs::exists(folder / pickled))
      hint = cat(pickled,
                 " is there, but only safetensors are read: load the model with transformers and "
                 "save_pretrained() it");
  throw Error(Blame::model, cat(folder.string(), " has neither ", kSingle, " nor ", kIndex), hint);
}

using Files = std::vector<std::unique_ptr<SafetensorsFile>>;

// The index's weight_map, its structure checked.
std::map<std::string, std::string> read_weight_map(const fs::path& path) {
  const json index = read_json_object(path);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw Error(Blame::model,
                cat(path.string(), " must have an object 'weight_map' (tensor name to file name)"));
  Faults faults;
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      faults.add(cat("tensor ", shown(tensor), ": the file name must be a string, is ", file.type_name()));
    else if (!stays_below(file.get<std::string>()))
      faults.add(
          cat("tensor ", shown(tensor), ": file ", shown(file.get<std::string>()), " is outside the folder"));
    else
      out.emplace(tensor, file.get<std::string>());
  }
  faults.throw_if_any(cat(path.string(), " has faults"), "file names in an index are relative to its folder");
  return out;
}

// Opens every file the map names; those that can't be opened are faults.
Files open_shards(const fs::path& folder, const std::map<std::string, std::string>& map, Faults* faults) {
  std::map<std::string, int> counts;
  for (const auto& [tensor, file] : map) ++counts[file];
  Files files;
  for (const auto& [file, count] : counts) {
    if (!fs::exists(folder / file)) {
      faults->add(cat("file ", shown(file), " is missing; it should hold ", count, " tensors"));
      continue;
    }
    try {
      require_contained(folder, file, Blame::model);
      files.push_back(std::make_unique<SafetensorsFile>(folder / file));
    } catch (const Error& e) {
      if (e.blame() != Blame::model) throw;
      faults->add(e.problem());
    }
  }
  return files;
}

// Index and files must name the same tensors in the same places.
void check_index(const fs::path& folder, const std::map<std::string, std::string>& map, const Files& files,
                 Faults* faults) {
  std::map<std::string, std::string> found;
  for (const auto& file : files) {
    const std::string name = file->path().lexically_relative(folder).generic_string();
    for (const StoredTensor& t : file->tensors()) {
      const auto listed = map.find(t.name);
      if (const auto [at, fresh] = found.emplace(t.name, name); !fresh)
        faults->add(
            cat("tensor ", shown(t.name), " is both in ", shown(at->second), " and in ", shown(name)));
      else if (listed == map.end())
        faults->add(cat("tensor ", shown(t.name), " is in ", shown(name), " but not in the index"));
      else if (fs::path(listed->second).lexically_normal() != fs::path(name).lexically_normal())
        faults->add(cat("tensor ", shown(t.name), " is in ", shown(name), ", the index says ",
                        shown(listed->second)));
    }
  }
  for (const auto& [tensor, file] : map)
    if (found.count(tensor) == 0)
      faults->add(cat("tensor ", shown(tensor), " is not in ", shown(file), " as the index says"));
}

Files open_files(const fs::path& folder) {
  Files files;
  // As transformers does: the single file wins where both are there.
  for (const char* const name : {kSingle, kIndex}) require_contained(folder, name, Blame::model);
  if (fs::exists(folder / kSingle)) {
    files.push_back(std::make_unique<SafetensorsFile>(folder / kSingle));
    return files;
  }
  if (!fs::exists(folder / kIndex)) no_weights(folder);
  const auto map = read_weight_map(folder / kIndex);
  Faults faults;
  files = open_shards(folder, map, &faults);
  // With a file missing, its tensors would all be reported again.
  if (faults.empty()) check_index(folder, map, files, &faults);
  faults.throw_if_any(cat(folder.string(), ": ", kIndex, " and the files disagree"),
                      "was the model fetched completely? fetch it again");
  return files;
}

}  // namespace

json read_config(const fs::path& path) {
  if (!fs::exists(path))
    throw Error(Blame::model, cat("there is no model folder ", path.string()),
                "a model is a local folder in Hugging Face form; nothing is downloaded");
  constexpr auto kConfig = "config.json";
  const bool folder = fs::is_directory(path);
  if (folder) require_contained(path, kConfig, Blame::model);
  return read_json_object(folder ? path / kConfig : path, std::int64_t{16} << 20);
}

std::map<std::string, std::string> companion_files(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const char* name : kCompanions) {
    require_contained(folder, name, Blame::model);
    if (fs::exists(folder / name)) out[name] = read_text_file(folder / name, Blame::model);
  }
  return out;
}

ModelFolder::ModelFolder(const fs::path& folder)
    : path_(folder), config_(read_config(folder)), files_(open_files(folder)) {}

void ModelFolder::bind(const spec::ModelSpec& model) {
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : files_) files.push_back(file.get());
  bound_ = bind_tensors(model, files, path_.string());
}

void ModelFolder::read(const std::string& name, std::int64_t first, std::int64_t count, void* dst,
                       Dtype dst_dtype) const {
  const auto at = bound_.find(name);
  if (at == bound_.end())
    throw Error(Blame::bug, cat("tensor ", shown(name), " was read from ", path_.string(), " unbound"));
  at->second.file->read(*at->second.tensor, first, count, dst, dst_dtype);
}

void ModelFolder::read(const spec::TensorSpec& tensor, std::int64_t first, std::span<float> dst) const {
  read(tensor.name, first, std::int64_t(dst.size()), dst.data(), Dtype::f32);
}

void ModelFolder::read(const spec::TensorSpec& tensor, std::int64_t first, std::span<bf16> dst) const {
  read(tensor.name, first, std::int64_t(dst.size()), dst.data(), Dtype::bf16);
}

Dtype ModelFolder::stored_dtype() const {
  bool has_bf16 = false, has_f16 = false;
  for (const auto& file : files_) {
    for (const StoredTensor& t : file->tensors()) {
      if (t.dtype == Dtype::f32) return Dtype::f32;
      has_bf16 |= t.dtype == Dtype::bf16;
      has_f16 |= t.dtype == Dtype::f16;
    }
  }
  if (has_bf16 && has_f16) return Dtype::f32;  // neither holds the other's values
  return has_f16 ? Dtype::f16 : Dtype::bf16;
}

}  // namespace zt::exchange
