// Where a run's model comes from: a Hugging Face folder, or a config and random numbers.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "exchange/model_folder.h"
#include "recipe/settings.h"
#include "shard/param_store.h"
#include "spec/model.h"
#include "text/tokenizer.h"

namespace zt::train {

struct ModelSource {
  spec::ModelSpec spec;
  nlohmann::json config;                          // as it is, or as it will be exported
  std::unique_ptr<exchange::ModelFolder> folder;  // null for a model from scratch
  std::map<std::string, std::string> companions;  // files of the folder that travel with an export
};

// The tokenizer a recipe names. `char` reads the training text. Errors: usage, data, model.
std::unique_ptr<text::Tokenizer> open_tokenizer(const recipe::Recipe& recipe);

// Reads and checks the config, and for a folder every header of its files; no weights yet. A config from
// scratch that does not say vocab_size, bos_token_id or eos_token_id takes the tokenizer's.
ModelSource open_model(const recipe::Model& model, const text::Tokenizer& tokenizer);
ModelSource open_model_folder(const std::filesystem::path& folder);

// Puts the folder's weights, or random ones, into the store.
void load_weights(const ModelSource& source, shard::ParamStore& store, std::uint64_t seed);

// Writes the store as a complete Hugging Face folder with the tokenizer's files.
void export_weights(const std::filesystem::path& to, const ModelSource& source,
                    const shard::ParamStore& store, const text::Tokenizer& tokenizer, Dtype dtype);

}  // namespace zt::train
