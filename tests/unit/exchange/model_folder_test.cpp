#include "exchange/model_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "base/text.h"
#include "exchange/json.h"
#include "files.h"
#include "model_files.h"
#include "spec/model.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::exchange;
using namespace zt::test;
namespace fs = std::filesystem;

namespace {

std::string folder_error(const fs::path& folder) {
  return error_of(Blame::model, [&] {
    ModelFolder model(folder);
    model.bind(spec::from_config(model.config(), "config.json"));
  });
}

void write_model(const ScratchDir& dir, const nlohmann::json& config, const Weights& weights,
                 const std::map<std::string, std::string>& metadata = {}) {
  dir.write("config.json", config.dump());
  write_weights(dir.path() / "model.safetensors", weights, metadata);
}

std::vector<float> values_of(const ModelFolder& folder, const spec::TensorSpec& tensor) {
  std::vector<float> out(std::size_t(tensor.elements()));
  folder.read(tensor, 0, out);
  return out;
}

// Two shards and their index, with the index open to changes.
nlohmann::json write_sharded(const ScratchDir& dir) {
  const Weights all = weights_of(tiny_llama(true));
  Weights first, second;
  nlohmann::json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::json::object()}};
  for (const auto& [name, tensor] : all) {
    const bool early = first.size() < 3;
    (early ? first : second)[name] = tensor;
    index["weight_map"][name] = early ? "one.safetensors" : "two.safetensors";
  }
  write_weights(dir.path() / "one.safetensors", first);
  write_weights(dir.path() / "two.safetensors", second);
  dir.write("config.json", tiny_llama(true).dump());
  return index;
}

}  // namespace

TEST_CASE("json: a key twice, deep nesting and other texts are refused, depth and keys of siblings are not") {
  struct Case {
    std::string text, expected;
  };
  for (const Case& c : std::vector<Case>{
           {R"({"a":1,"a":2})", "x.json has the key 'a' twice"},
           {R"({"a":{"b":1,"c":{},"b":2}})", "x.json has the key 'b' twice"},
           {std::string(100, '['), "x.json nests deeper than 64 levels"},
           {std::string(10'000'000, '['), "x.json nests deeper than 64 levels"},
           {"{", "x.json is not JSON: parse error"},
           {"", "x.json is not JSON"},
           {"{} {}", "x.json is not JSON"},
           {"{\"a\":\"\xff\"}", "x.json is not JSON"},
       }) {
    CAPTURE(c.text.substr(0, 80));
    const std::string error = error_of(Blame::model, [&] { parse_json(c.text, "x.json"); });
    INFO(error);
    CHECK(contains(error, c.expected));
  }
  CHECK(parse_json(R"({"a":{"b":1},"c":{"b":2,"a":[{"b":3},{"b":4}]}})", "x.json")["c"]["a"][1]["b"] == 4);
}

TEST_CASE("model folder: what is not there is named") {
  const ScratchDir dir;
  CHECK(contains(folder_error(dir.path() / "no"), "there is no model folder"));
  CHECK(contains(folder_error(dir.path()), "config.json"));
  dir.write("config.json", tiny_llama(true).dump());
  CHECK(contains(folder_error(dir.path()), "has neither model.safetensors nor model.safetensors.index.json"));
  dir.write("pytorch_model.bin", "");
  CHECK(contains(folder_error(dir.path()), "pytorch_model.bin is there, but only safetensors are read"));
  dir.write("config.json", "[]");
  CHECK(contains(folder_error(dir.path()), "must hold a JSON object, holds array"));
}

TEST_CASE("model folder: every value of a tiny model is read, GPT-2 and Llama, with and without the prefix") {
  for (const auto& config : {tiny_llama(true), tiny_llama(false), tiny_gpt2()}) {
    for (const bool prefixed : {true, false}) {
      CAPTURE(config.dump());
      CAPTURE(prefixed);
      const ScratchDir dir;
      const Weights weights = weights_of(config);
      Weights stored;
      for (const auto& [name, tensor] : weights) stored[prefixed ? name : without_prefix(name)] = tensor;
      write_model(dir, config, stored);
      ModelFolder folder(dir.path());
      const spec::ModelSpec model = spec::from_config(folder.config(), "config.json");
      folder.bind(model);
      CHECK(folder.stored_dtype() == Dtype::f32);
      for (const auto& block : model.blocks)
        for (const auto& tensor : block.tensors)
          CHECK(values_of(folder, tensor) == weights.at(tensor.name).values);
    }
  }
}

TEST_CASE("model folder: buffers that follow from the config are ignored") {
  const ScratchDir dir;
  Weights weights = weights_of(tiny_gpt2());
  weights["transformer.h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  weights["h.0.attn.masked_bias"] = {{}, {-1e4f}};
  write_model(dir, tiny_gpt2(), weights);
  CHECK(folder_error(dir.path()) == "no error");
  const ScratchDir other;
  weights = weights_of(tiny_llama(true));
  weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{2}, {1, 0.01f}};
  write_model(other, tiny_llama(true), weights);
  CHECK(folder_error(other.path()) == "no error");
}

TEST_CASE("model folder: missing, foreign and misshapen tensors are all reported at once") {
  const ScratchDir dir;
  Weights weights = weights_of(tiny_llama(true));
  weights.erase("model.norm.weight");
  weights["model.layers.0.mlp.up_proj.weight"] = {{1, 2}, {1, 2}};
  weights["score.weight"] = {{1}, {1}};
  write_model(dir, tiny_llama(true), weights);
  const std::string error = folder_error(dir.path());
  INFO(error);
  CHECK(contains(error, "tensor 'model.norm.weight' is missing"));
  CHECK(contains(error, "has shape [1, 2], config.json means [6, 4]"));
  CHECK(contains(error, "tensor 'score.weight' of "));
  CHECK(contains(error, "is not part of this llama model"));
}

TEST_CASE(
    "model folder: tied and untied are decided by config and files together, or refused with both facts") {
  const Weights tied = weights_of(tiny_llama(true));
  const auto embedding = tied.at("model.embed_tokens.weight");
  const auto load = [](bool says_tied, const Weights& weights,
                       const std::map<std::string, std::string>& metadata = {}) {
    const ScratchDir dir;
    write_model(dir, tiny_llama(says_tied), weights, metadata);
    return folder_error(dir.path());
  };
  SUBCASE("an equal head beside tied embeddings is the same tensor") {
    Weights w = tied;
    w["lm_head.weight"] = embedding;
    CHECK(load(true, w) == "no error");
  }
  SUBCASE("an unequal one is a contradiction") {
    Weights w = tied;
    w["lm_head.weight"] = embedding;
    w["lm_head.weight"].values[6] += 1;
    w["lm_head.weight"].values[7] += 1;
    const std::string error = load(true, w);
    INFO(error);
    CHECK(contains(
        error,
        "config.json says tie_word_embeddings is true, but lm_head.weight and model.embed_tokens.weight "
        "differ in 2 of 32 elements, first at row 1, column 2"));
  }
  SUBCASE("one of another shape too") {
    Weights w = tied;
    w["lm_head.weight"] = {{2, 4}, std::vector<float>(8)};
    CHECK(
        contains(load(true, w), "lm_head.weight is F32 [2, 4] and model.embed_tokens.weight is F32 [8, 4]"));
  }
  SUBCASE("tied embeddings stored only as head, with or without a note of it") {
    Weights w = tied;
    w.erase("model.embed_tokens.weight");
    w["lm_head.weight"] = embedding;
    CHECK(load(true, w) == "no error");
    CHECK(load(true, w, {{"model.embed_tokens.weight", "lm_head.weight"}}) == "no error");
    // The head alone is no embedding for an untied model.
    CHECK(contains(load(false, w, {{"model.embed_tokens.weight", "lm_head.weight"}}),
                   "tensor 'model.embed_tokens.weight' is missing"));
  }
  SUBCASE("an untied head must be there") {
    CHECK(contains(load(false, tied),
                   "config.json says tie_word_embeddings is false, but no file has lm_head.weight"));
    CHECK(contains(load(false, tied, {{"lm_head.weight", "model.embed_tokens.weight"}}),
                   "the file says it is the same as 'model.embed_tokens.weight'"));
  }
}

TEST_CASE("model folder: shards are read as one model; every fault of the index is named") {
  const ScratchDir dir;
  const nlohmann::json good = write_sharded(dir);
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json index = good;
    change(index);
    dir.write("model.safetensors.index.json", index.dump());
    return folder_error(dir.path());
  };
  const std::string name = "model.norm.weight";
  CHECK(with([](auto&) {}) == "no error");
  CHECK(contains(with([](auto& i) { i.erase("weight_map"); }), "must have an object 'weight_map'"));
  CHECK(contains(with([&](auto& i) { i["weight_map"][name] = 3; }),
                 "the file name must be a string, is number"));
  for (const char* escape : {"../x.safetensors", "/etc/passwd", "a/../../x", "", ".."}) {
    CAPTURE(escape);
    CHECK(contains(with([&](auto& i) { i["weight_map"][name] = escape; }), "is outside the folder"));
  }
  CHECK(contains(with([&](auto& i) { i["weight_map"][name] = "three.safetensors"; }),
                 "file 'three.safetensors' is missing; it should hold 1 tensors"));
  CHECK(contains(with([&](auto& i) { i["weight_map"][name] = "one.safetensors"; }),
                 "tensor 'model.norm.weight' is in 'two.safetensors', the index says 'one.safetensors'"));
  CHECK(contains(with([&](auto& i) { i["weight_map"].erase(name); }),
                 "is in 'two.safetensors' but not in the index"));
  CHECK(contains(with([&](auto& i) { i["weight_map"]["extra"] = "one.safetensors"; }),
                 "tensor 'extra' is not in 'one.safetensors' as the index says"));
  dir.write("one.safetensors", "short");
  CHECK(contains(with([](auto&) {}), "one.safetensors has 5 bytes, too few"));
}

TEST_CASE("model folder: links that lead out of it are refused by name, whichever file they stand for") {
  const ScratchDir scratch;
  const nlohmann::json config = tiny_llama(true);
  const auto fresh = [&](const std::string& name) {
    const fs::path folder = scratch.path() / name;
    scratch.write(name + "/config.json", config.dump());
    write_weights(folder / "model.safetensors", weights_of(config));
    return folder;
  };
  const fs::path elsewhere = fresh("elsewhere");
  for (const char* const file : {"config.json", "model.safetensors"}) {
    CAPTURE(file);
    const fs::path folder = fresh(std::string("with-") + file);
    fs::remove(folder / file);
    fs::create_symlink(elsewhere / file, folder / file);
    CHECK(
        contains(folder_error(folder), (folder / file).string() + " is a link that leads out of its folder"));
  }
  const fs::path sharded = fresh("sharded");
  fs::remove(sharded / "model.safetensors");
  fs::create_directory_symlink(elsewhere, sharded / "sub");
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  for (const auto& [name, weight] : weights_of(config)) index["weight_map"][name] = "sub/model.safetensors";
  scratch.write("sharded/model.safetensors.index.json", index.dump());
  CHECK(contains(folder_error(sharded), "sub/model.safetensors is a link that leads out of its folder"));

  const fs::path companions = fresh("companions");
  fs::create_symlink("/etc/hostname", companions / "merges.txt");
  CHECK(contains(error_of(Blame::model, [&] { companion_files(companions); }),
                 "merges.txt is a link that leads out of its folder"));
}

TEST_CASE("model folder: a weight in a format that is no weight's is named with it") {
  const ScratchDir dir;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, w] : weights_of(tiny_llama(true)))
    tensors.push_back({name, name == "model.norm.weight" ? Dtype::i32 : Dtype::f32, w.shape});
  dir.write("config.json", tiny_llama(true).dump());
  SafetensorsWriter writer(dir.path() / "model.safetensors", tensors, {});
  for (const NamedTensor& t : tensors)
    writer.append(t.name, std::vector<std::byte>(std::size_t(elements_of(t.shape) * 4)));
  writer.finish();
  CHECK(contains(folder_error(dir.path()), "is stored as I32; weights are read from F32, BF16 and F16"));
}

TEST_CASE("model folder: tinystories-656K has the published values and is the same in both its files") {
  const auto data = test_data("models/tinystories-656K");
  const auto reference = test_data("numbers/tinystories656k_reference.json");
  if (!data || !reference) return;
  const ScratchDir other;
  fs::copy_file(*data / "config.json", other.path() / "config.json");
  fs::copy_file(*data / "model.f32-lm_head.safetensors", other.path() / "model.safetensors");
  ModelFolder a(*data), b(other.path());
  const spec::ModelSpec model = spec::from_config(a.config(), "config.json");
  a.bind(model);
  b.bind(model);
  CHECK(a.stored_dtype() == Dtype::bf16);
  CHECK(b.stored_dtype() == Dtype::f32);
  for (const auto& block : model.blocks)
    for (const auto& tensor : block.tensors) CHECK(values_of(a, tensor) == values_of(b, tensor));

  int checked = 0;
  const auto published = parse_json(read_file(*reference), "reference")["published"]["weight_values"];
  for (const auto& [key, value] : published.items()) {
    if (!value.is_number()) continue;
    const std::size_t bracket = key.find('[');
    float x = 0;
    a.read(key.substr(0, bracket), std::stol(key.substr(bracket + 1)), 1, &x, Dtype::f32);
    CHECK(std::abs(x - value.get<float>()) <= 1e-6f);
    ++checked;
  }
  CHECK(checked == 11);
}
