#include "exchange/export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "base/text.h"
#include "exchange/json.h"
#include "exchange/model_folder.h"
#include "files.h"
#include "model_files.h"
#include "support/paths.h"
#include "tensor/convert.h"

using namespace zt;
using namespace zt::exchange;
using namespace zt::test;
namespace fs = std::filesystem;

namespace {

TensorReader reader_of(const Weights& weights) {
  return
      [&weights](const spec::TensorSpec& t, std::int64_t first, std::int64_t count, void* dst, Dtype dtype) {
        const auto* src = reinterpret_cast<const std::byte*>(weights.at(t.name).values.data() + first);
        convert(src, Dtype::f32, dst, dtype, count);
      };
}

TensorReader reader_of(const ModelFolder& folder) {
  return [&folder](const spec::TensorSpec& t, std::int64_t first, std::int64_t count, void* dst,
                   Dtype dtype) { folder.read(t.name, first, count, dst, dtype); };
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    out[entry.path().filename()] = read_file(entry.path());
  return out;
}

}  // namespace

TEST_CASE("export: a folder of any dtype and any number of files is a model with the same values again") {
  for (const auto& config : {tiny_llama(true), tiny_llama(false), tiny_gpt2()}) {
    const Weights weights = weights_of(config);
    const spec::ModelSpec model = spec::from_config(config, "config");
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const std::int64_t shard_bytes : {std::int64_t{1}, std::int64_t{200}, std::int64_t{1} << 40}) {
        CAPTURE(config.dump());
        CAPTURE(name(dtype));
        CAPTURE(shard_bytes);
        const ScratchDir dir;
        const fs::path to = dir.path() / "made" / "export";
        export_model(to, model, config, {dtype, shard_bytes}, reader_of(weights), {{"tokenizer.json", "{}"}});
        CHECK(read_file(to / "tokenizer.json") == "{}");
        ModelFolder folder(to);
        CHECK(folder.config().at("torch_dtype") == name(dtype));
        CHECK(folder.config().at("architectures") == config.at("architectures"));
        CHECK(folder.stored_dtype() == dtype);
        folder.bind(spec::from_config(folder.config(), "config"));
        std::int64_t tensors = 0;
        for (const auto& file : folder.files()) {
          CHECK(file->metadata() == std::map<std::string, std::string>{{"format", "pt"}});
          tensors += std::int64_t(file->tensors().size());
          CHECK((file->tensors().size() == 1 || file->tensors().back().end <= shard_bytes));
        }
        CHECK(tensors == std::int64_t(weights.size()));  // tied embeddings once
        CHECK((folder.files().size() == 1) == (shard_bytes > 1 << 20));
        for (const auto& [tensor, w] : weights) {
          std::vector<float> x(w.values.size());
          folder.read(tensor, 0, std::int64_t(x.size()), x.data(), Dtype::f32);
          std::vector<std::byte> narrow(x.size() * std::size_t(size_of(dtype)));
          std::vector<float> expected(x.size());
          convert(reinterpret_cast<const std::byte*>(w.values.data()), Dtype::f32, narrow.data(), dtype,
                  std::int64_t(x.size()));
          convert(narrow.data(), dtype, expected.data(), Dtype::f32, std::int64_t(x.size()));
          CHECK(x == expected);
        }
        if (folder.files().size() == 1) continue;
        const auto index = read_json_object(to / "model.safetensors.index.json");
        CHECK(index["metadata"]["total_size"] == model.parameters() * size_of(dtype));
        CHECK(fs::exists(to / fmt::format("model-00001-of-{:05}.safetensors", folder.files().size())));
      }
    }
  }
}

TEST_CASE("export: every key of the source's config stays") {
  const ScratchDir dir;
  auto config = tiny_llama(true);
  config["transformers_version"] = "4.41.2";
  config["dtype"] = "float32";
  config["custom"] = {{"nested", {1, nullptr, "x"}}};
  const Weights weights = weights_of(config);
  export_model(dir.path() / "e", spec::from_config(config, "config"), config, {Dtype::bf16},
               reader_of(weights));
  const auto written = read_config(dir.path() / "e");
  CHECK(written.at("dtype") == "bfloat16");
  for (const auto& [key, value] : config.items())
    if (key != "dtype") CHECK_MESSAGE(written.at(key) == value, key);
}

TEST_CASE(
    "export: it is complete or absent, replaces only an earlier export, and leaves nothing else behind") {
  const ScratchDir dir;
  const auto config = tiny_llama(true);
  const auto model = spec::from_config(config, "config");
  const Weights weights = weights_of(config);
  const fs::path to = dir.path() / "e";
  const auto write = [&](const fs::path& where, Dtype dtype = Dtype::f32) {
    export_model(where, model, config, {dtype}, reader_of(weights));
  };
  const TensorReader failing = [](const auto&, auto...) {
    throw Error(Blame::numbers, "stopped in the middle");
  };

  CHECK_THROWS(export_model(to, model, config, {}, failing));
  CHECK(fs::is_empty(dir.path()));
  fs::create_directory(to);  // an empty folder is as good as none
  write(to.string() + "/");
  const auto first = files_in(to);
  CHECK_THROWS(export_model(to, model, config, {}, failing));
  CHECK(files_in(to) == first);
  write(to, Dtype::bf16);
  CHECK(files_in(to) != first);
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);

  dir.write("e/notes.txt", "mine");
  std::string error = error_of(Blame::usage, [&] { write(to); });
  CHECK(contains(error, "holds 'notes.txt', which no export wrote; it is not replaced"));
  CHECK(contains(error, "name a new folder, or move this one away"));
  CHECK(read_file(to / "notes.txt") == "mine");

  dir.write("source/config.json", "{}");
  CHECK(contains(error_of(Blame::usage, [&] { write(dir.path() / "source"); }), "is not an earlier export"));
  dir.write("file", "x");
  CHECK(contains(error_of(Blame::usage, [&] { write(dir.path() / "file"); }), "is not a folder"));
  CHECK(
      contains(error_of(Blame::machine, [&] { write(dir.path() / "file" / "below"); }), "cannot export to"));
  dir.write("x.partial/other", "mine");
  CHECK(contains(error_of(Blame::usage, [&] { write(dir.path() / "x"); }), "is in the way"));
  CHECK(read_file(dir.path() / "x.partial/other") == "mine");
}

TEST_CASE("export: what an export has left that was killed, at its first byte or later, is replaced") {
  const auto config = tiny_llama(true);
  const auto model = spec::from_config(config, "config");
  const Weights weights = weights_of(config);
  for (const char* left :
       {"", "e.partial/.zerotrain-export.json.partial", "e.partial/.zerotrain-export.json"}) {
    CAPTURE(left);
    const ScratchDir dir;
    fs::create_directory(dir.path() / "e.partial");
    if (*left != '\0') dir.write(left, "{");
    export_model(dir.path() / "e", model, config, {}, reader_of(weights));
    CHECK(fs::exists(dir.path() / "e/model.safetensors"));
    CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
  }
}

TEST_CASE("export: tinystories-656K goes in and out byte for byte, from either of its files") {
  const auto data = test_data("models/tinystories-656K");
  if (!data) return;
  const ScratchDir dir;
  for (const char* file : {"model.safetensors", "model.f32-lm_head.safetensors"}) {
    CAPTURE(file);
    const fs::path source = dir.path() / "source" / file, to = dir.path() / "export" / file;
    fs::create_directories(source);
    fs::copy_file(*data / "config.json", source / "config.json");
    fs::copy_file(*data / file, source / "model.safetensors");
    ModelFolder folder(source);
    const auto model = spec::from_config(folder.config(), "config.json");
    folder.bind(model);
    export_model(to, model, folder.config(), {Dtype::bf16}, reader_of(folder), companion_files(*data));
    const SafetensorsFile published(*data / "model.safetensors"), ours(to / "model.safetensors");
    REQUIRE(ours.tensors().size() == published.tensors().size());
    for (const StoredTensor& t : published.tensors()) {
      CAPTURE(t.name);
      const StoredTensor* mine = ours.find(t.name);
      REQUIRE(mine != nullptr);
      CHECK(mine->dtype == t.dtype);
      CHECK(mine->shape == t.shape);
      CHECK(std::ranges::equal(ours.bytes(*mine), published.bytes(t)));
    }
    // The order of tensors is that of the safetensors library, so even the files are equal.
    CHECK(read_file(to / "model.safetensors") == read_file(*data / "model.safetensors"));
    for (const char* companion :
         {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"})
      CHECK(read_file(to / companion) == read_file(*data / companion));
  }
}
