#include "exchange/export.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "exchange/json.h"
#include "exchange/safetensors.h"
#include "exchange/words.h"
#include "spec/model.h"

namespace zt::exchange {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kMarker =
    ".zerotrain-export.json";  // lists the files of an export: only those may be replaced
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

using Shard = std::vector<const spec::TensorSpec*>;

// Tensors in the model's order, cut where a file would grow over the limit.
std::vector<Shard> cut_into_shards(const spec::ModelSpec& model, const ExportOptions& options) {
  std::vector<Shard> shards(1);
  std::int64_t bytes = 0;
  for (const spec::BlockSpec& block : model.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) {
      const std::int64_t size = tensor.elements() * size_of(options.dtype);
      if (!shards.back().empty() && size > options.shard_bytes - bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().push_back(&tensor);
      bytes += size;
    }
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

// Streams the tensors in the model's order into a file that holds them by name, as other writers do.
void write_shard(const fs::path& path, const Shard& shard, Dtype dtype, const TensorReader& read) {
  std::vector<NamedTensor> tensors;
  for (const spec::TensorSpec* t : shard) tensors.push_back({t->name, dtype, t->shape});
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  std::vector<std::byte> piece;
  for (const spec::TensorSpec* t : shard) {
    const std::int64_t size = t->elements(), step = kPieceBytes / size_of(dtype);
    for (std::int64_t first = 0; first < size; first += step) {
      const std::int64_t count = std::min(step, size - first);
      piece.resize(std::size_t(count * size_of(dtype)));
      read(*t, first, count, piece.data(), dtype);
      writer.append(t->name, piece);
    }
  }
  writer.finish();
}

std::string json_text(const json& value) { return value.dump(2) + "\n"; }

// The index of several shards; nothing for one.
json index_of(const std::vector<Shard>& shards, Dtype dtype) {
  json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const spec::TensorSpec* t : shards[i]) {
      index["weight_map"][t->name] = shard_name(i, shards.size());
      total += t->elements() * size_of(dtype);
    }
  }
  index["metadata"]["total_size"] = total;
  return index;
}

json config_for_export(const spec::ModelSpec& model, const json& config, Dtype dtype) {
  json out = spec::to_config(model, config);
  out["torch_dtype"] = name(dtype);
  if (out.contains("dtype")) out["dtype"] = name(dtype);  // the newer word for the same
  return out;
}

// Why `folder` may not be replaced; "" when it may: an export of ours with nothing added.
std::string reason_to_keep(const fs::path& folder) {
  std::set<std::string> ours = {kMarker};
  if (!fs::exists(folder / kMarker)) return "is not empty and is not an earlier export";
  try {
    const json marker = read_json_object(folder / kMarker);
    for (const json& file : marker.at("files")) ours.insert(file.get<std::string>());
  } catch (const std::exception&) {
    return cat("has an unreadable ", kMarker);
  }
  for (const auto& entry : fs::directory_iterator(folder))
    if (ours.count(entry.path().filename().string()) == 0)
      return cat("holds ", shown(entry.path().filename().string()), ", which no export wrote");
  return "";
}

void require_replaceable(const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(folder))) return;
  if (!fs::is_directory(folder))
    throw Error(Blame::usage, cat(folder.string(), " is not a folder"), "name a new folder for the export");
  if (fs::is_empty(folder)) return;
  if (const std::string reason = reason_to_keep(folder); !reason.empty())
    throw Error(Blame::usage, cat(folder.string(), " ", reason, "; it is not replaced"),
                "name a new folder, or move this one away");
}

[[noreturn]] void fail_rename(const fs::path& from, const fs::path& to) {
  throw Error(Blame::machine,
              cat("cannot rename ", from.string(), " to ", to.string(), ": ", std::strerror(errno)));
}

// Puts the finished folder in place. Where an export stands already, the two change places in one step.
void put_in_place(const fs::path& finished, const fs::path& folder) {
  if (::rename(finished.c_str(), folder.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_rename(finished, folder);
  if (::renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    const fs::path old = fs::path(folder).concat(".old");  // a file system without exchange
    fs::remove_all(old);
    if (::rename(folder.c_str(), old.c_str()) != 0) fail_rename(folder, old);
    if (::rename(finished.c_str(), folder.c_str()) != 0) fail_rename(finished, folder);
    fs::remove_all(old);
    return;
  }
  fs::remove_all(finished);
}

// The folder a path means: links followed, no trailing slash.
fs::path resolved(const fs::path& folder) {
  fs::path out = fs::weakly_canonical(fs::absolute(folder));
  return out.has_filename() ? out : out.parent_path();
}

// Whether an export was interrupted here; perhaps while it wrote its marker, which takes a name that begins like it.
bool is_unfinished_export(const fs::path& partial) {
  if (!fs::is_directory(partial)) return false;
  if (fs::exists(partial / kMarker)) return true;
  return std::ranges::all_of(fs::directory_iterator(partial), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(kMarker);
  });
}

void check_companions(const std::map<std::string, std::string>& companions) {
  for (const auto& [name, bytes] : companions)
    if (name.empty() || fs::path(name).filename() != name || name == "config.json" ||
        name.ends_with(".safetensors"))
      throw Error(Blame::bug, cat("an export can't take the file ", shown(name), " along"));
}

void write_folder(const fs::path& folder, const spec::ModelSpec& model, const json& config,
                  const ExportOptions& options, const TensorReader& read,
                  const std::map<std::string, std::string>& companions) {
  std::map<std::string, std::string> texts = companions;
  texts["config.json"] = json_text(config_for_export(model, config, options.dtype));
  const std::vector<Shard> shards = cut_into_shards(model, options);
  if (shards.size() > 1) texts["model.safetensors.index.json"] = json_text(index_of(shards, options.dtype));
  json files = json::array();
  for (const auto& [name, bytes] : texts) files.push_back(name);
  for (std::size_t i = 0; i < shards.size(); ++i) files.push_back(shard_name(i, shards.size()));
  // The marker comes first, so that what an interrupted export leaves is known as ours.
  write_file(folder / kMarker, json_text({{"files", files}}));
  for (std::size_t i = 0; i < shards.size(); ++i)
    write_shard(folder / shard_name(i, shards.size()), shards[i], options.dtype, read);
  for (const auto& [name, bytes] : texts) write_file(folder / name, bytes);
}

}  // namespace

void export_model(const fs::path& folder, const spec::ModelSpec& model, const json& config,
                  const ExportOptions& options, const TensorReader& read,
                  const std::map<std::string, std::string>& companions) {
  const fs::path target = resolved(folder);
  const fs::path partial = fs::path(target).concat(".partial");
  check_companions(companions);
  require_replaceable(target);
  try {
    if (fs::exists(partial) && !is_unfinished_export(partial))
      throw Error(Blame::usage, cat(partial.string(), " is in the way and is not an unfinished export"),
                  "move it away");
    fs::remove_all(partial);
    fs::create_directories(partial);
    try {
      write_folder(partial, model, config, options, read, companions);
    } catch (...) {
      std::error_code ignored;  // the first error is the one to report
      fs::remove_all(partial, ignored);
      throw;
    }
    put_in_place(partial, target);
  } catch (const fs::filesystem_error& e) {
    throw Error(Blame::machine, cat("cannot export to ", target.string(), ": ", e.what()),
                "is the folder writable, and is there space on the disk?");
  }
}

}  // namespace zt::exchange
