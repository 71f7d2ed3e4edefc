// Ranks read only what they own, from model folders and from checkpoints.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "checkpoint/save.h"
#include "comm/threads.h"
#include "support/paths.h"
#include "support/tiny_models.h"
#include "train/model_source.h"
#include "train/sharded_state.h"

namespace zt::train {
namespace {

namespace fs = std::filesystem;

nlohmann::json config_of(int hidden, int layers) {
  return {{"model_type", "llama"},         {"hidden_size", hidden},           {"num_hidden_layers", layers},
          {"num_attention_heads", 4},      {"intermediate_size", 2 * hidden}, {"vocab_size", 264},
          {"max_position_embeddings", 16}, {"tie_word_embeddings", false}};
}

shard::Share share_of(int stage, int ranks, int rank) {
  return {plan::Partition::of_stage(stage, ranks, schedule::ReduceEvery::micro), rank};
}

// Bytes of a mapped file that this process has touched.
std::int64_t touched_bytes(const fs::path& file) {
  std::ifstream in("/proc/self/smaps");
  std::int64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find('-') < 20 && line.find(' ') != std::string::npos && line.find("kB") == std::string::npos)
      inside = line.ends_with(file.filename().string());
    std::int64_t kilobytes = 0;
    if (inside && starts_with(line, "Rss:") && std::istringstream(line.substr(4)) >> kilobytes)
      sum += kilobytes * 1024;
  }
  return sum;
}

TEST_CASE("load: a new model's spread is the recipe's or its config's, and two different ones are refused") {
  recipe::Model model;
  model.config = {{"model_type", "llama"},    {"hidden_size", 8},       {"num_hidden_layers", 1},
                  {"num_attention_heads", 2}, {"intermediate_size", 8}, {"max_position_embeddings", 8},
                  {"initializer_range", 0.1}};
  const auto bytes = text::byte_tokenizer();
  CHECK(train::open_model(model, *bytes).spec.init_std == 0.1f);
  model.init_std = 0.1;
  CHECK(train::open_model(model, *bytes).spec.init_std == 0.1f);
  model.init_std = 0.05;
  CHECK_THROWS_WITH_AS(train::open_model(model, *bytes),
                       doctest::Contains("model.config.initializer_range is 0.1"), Error);
  model.config.erase("initializer_range");
  CHECK(train::open_model(model, *bytes).spec.init_std == 0.05f);
}

TEST_CASE(
    "load: a tokenizer that can make an id without an embedding row is refused, with the token's name") {
  const auto bytes = text::byte_tokenizer();  // 264 ids
  recipe::Model from_scratch;
  from_scratch.config = config_of(16, 1);
  CHECK(open_model(from_scratch, *bytes).spec.vocab == 264);
  from_scratch.config["vocab_size"] = 263;
  const test::ScratchDir scratch;
  ModelSource folder;
  folder.config = from_scratch.config;
  folder.spec = spec::from_config(folder.config, "test");
  shard::ParamStore store(folder.spec, Dtype::f32, false);
  shard::initialise(store, folder.spec, 1);
  export_weights(scratch.path() / "model", folder, store, *bytes, Dtype::f32);
  recipe::Model from_folder;
  from_folder.base = scratch.path() / "model";
  for (const recipe::Model& model : {from_scratch, from_folder}) {
    try {
      open_model(model, *bytes);
      FAIL("must be refused");
    } catch (const Error& e) {
      CHECK(exit_status(e.blame()) == 4);
      CHECK(e.problem() ==
            "the tokenizer can make id 263 ('<|reserved_2|>'), but the model has only 263 embedding rows");
    }
  }
}

TEST_CASE(
    "load: at stage 3 a rank touches only its share of the files, and all ranks together get every value") {
  const test::ScratchDir scratch;
  const fs::path folder = scratch.path() / "model";
  ModelSource source;
  source.config = config_of(512, 5);
  source.spec = spec::from_config(source.config, "test");
  shard::ParamStore whole(source.spec, Dtype::f32, false);
  shard::initialise(whole, source.spec, 7);
  export_weights(folder, source, whole, *text::byte_tokenizer(), Dtype::f32);
  const auto file_bytes = std::int64_t(fs::file_size(folder / "model.safetensors"));
  REQUIRE(file_bytes > 40'000'000);
  constexpr int kRanks = 4;
  std::int64_t in_all = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const ModelSource opened = open_model_folder(folder);
    shard::ParamStore store(source.spec, Dtype::f32, true, share_of(3, kRanks, rank));
    load_weights(opened, store, 0);
    const std::int64_t touched = touched_bytes(folder / "model.safetensors");
    CHECK(touched > file_bytes / kRanks);
    CHECK(touched < file_bytes / 2);
    in_all += touched;
    for (int b = 0; b < int(source.spec.blocks.size()); ++b) {
      const plan::Range mine = store.owned(b);
      std::vector<float> values(std::size_t(mine.count)), expected(values.size());
      store.get(b, mine.first, values.data(), mine.count);
      whole.get(b, mine.first, expected.data(), mine.count);
      CHECK(values == expected);
    }
  }
  CHECK(double(in_all) < 1.5 * double(file_bytes));
}

// Every element's value and moments differ from every other's.
void fill(shard::ParamStore& store, const spec::ModelSpec& model) {
  std::int64_t start = 1;
  for (int b = 0; b < int(model.blocks.size()); ++b) {
    const plan::Range needed = store.needed(b);
    std::vector<float> values(std::size_t(needed.count));
    for (std::int64_t i = 0; i < needed.count; ++i) values[std::size_t(i)] = float(start + needed.first + i);
    store.set(b, needed.first, values.data(), needed.count);
    for (const plan::Part& part : store.parts(b))
      for (std::int64_t i = 0; i < part.count; ++i) {
        store.first_moment(b, part)[i] = -float(start + part.first + i);
        store.second_moment(b, part)[i] = 0.5f * float(start + part.first + i);
      }
    start += model.blocks[std::size_t(b)].elements;
  }
}

void check_filled(const shard::ParamStore& store, const spec::ModelSpec& model) {
  std::int64_t start = 1, wrong = 0;
  for (int b = 0; b < int(model.blocks.size()); ++b) {
    for (const plan::Part& part : store.parts(b))
      for (std::int64_t i = 0; i < part.count; ++i) {
        const float value = float(start + part.first + i);
        wrong += store.master(b, part)[i] != value;
        wrong += store.first_moment(b, part)[i] != -value;
        wrong += store.second_moment(b, part)[i] != 0.5f * value;
      }
    start += model.blocks[std::size_t(b)].elements;
  }
  CHECK(wrong == 0);
}

TEST_CASE(
    "checkpoints: what any ranks save at any stage, any other ranks load at any other, frozen tensors too") {
  spec::ModelSpec model = spec::from_config(config_of(24, 3), "test");
  for (spec::TensorSpec& tensor : model.blocks[0].tensors) tensor.trainable = false;
  model.blocks[2].tensors[3].trainable = false;
  struct Side {
    int ranks, stage;
    Dtype dtype;
  };
  const std::vector<Side> sides = {
      {8, 3, Dtype::bf16}, {3, 1, Dtype::f32}, {1, 0, Dtype::f32}, {3, 2, Dtype::f16}, {2, 0, Dtype::bf16}};
  for (const Side& from : sides) {
    const test::ScratchDir scratch;
    comm::run_threads(from.ranks, 60, [&](comm::Communicator& comm) {
      shard::ParamStore store(model, from.dtype, true, share_of(from.stage, from.ranks, comm.rank()));
      fill(store, model);
      const OwnedState owned(model, store);
      checkpoint::Save save({scratch.path(), 1, "run"}, checkpoint::bytes_of(owned.pieces()), comm);
      save.write(owned.pieces());
      checkpoint::RunState state;
      state.run_id = "run";
      state.step = 1;
      state.ranks = from.ranks;
      state.dtype = name(from.dtype);
      save.commit(comm, state, {});
    });
    const auto saved = checkpoint::Checkpoint::open(scratch.path() / "step-00000001");
    saved.check_against(needs_of(model));
    for (const Side& to : sides)
      for (int rank = 0; rank < to.ranks; ++rank) {
        CAPTURE(from.ranks);
        CAPTURE(to.ranks);
        shard::ParamStore store(model, to.dtype, true, share_of(to.stage, to.ranks, rank));
        load_state(saved, model, store);
        check_filled(store, model);
      }
  }
}

}  // namespace
}  // namespace zt::train
