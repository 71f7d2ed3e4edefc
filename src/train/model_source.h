// Where a run's model comes from: a Hugging Face folder, or a config and random numbers.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "exchange/model_folder.h"
#include "recipe/settings.h"
#include "shard/param_store.h"
#include "spec/model.h"
#include "text/tokenizer.h"

namespace zt::train {

struct ModelSource {
  spec::ModelSpec spec;
  nlohmann::json config;                               // as it is, or as it will be exported
  std::unique_ptr<exchange::ModelFolder> folder;       // of these at most one;
  std::shared_ptr<checkpoint::Checkpoint> checkpoint;  // a model from scratch has none
  std::map<std::string, std::string> companions;       // files of the folder that travel with an export
  std::string
      chat_template;  // Jinja, where a run trains with another one than the tokenizer's files have; or ""
};

// The tokenizer a recipe names. `char` reads the training text. Errors: usage, data, model.
std::unique_ptr<text::Tokenizer> open_tokenizer(const recipe::Recipe& recipe);

// Error(model) where the tokenizer makes ids that the model has no rows for.
void check_vocabulary(const spec::ModelSpec& spec, const text::Tokenizer& tokenizer);

// Reads and checks the config, and for a folder every header of its files; no weights yet. A config from
// scratch that does not say vocab_size, bos_token_id or eos_token_id takes the tokenizer's.
ModelSource open_model(const recipe::Model& model, const text::Tokenizer& tokenizer);
ModelSource open_model_folder(const std::filesystem::path& folder);
ModelSource open_checkpoint_model(const std::filesystem::path& folder);
// Whichever of the two the folder is; and where its tokenizer's files are.
ModelSource open_any_model(const std::filesystem::path& folder);
std::filesystem::path tokenizer_folder(const std::filesystem::path& model);

// Puts what the store needs of the model's weights, or random ones, into it. Reads only that.
void load_weights(const ModelSource& source, shard::ParamStore& store, std::uint64_t seed);

// The files that travel with an export: the model's and the tokenizer's.
std::map<std::string, std::string> export_companions(const ModelSource& source,
                                                     const text::Tokenizer& tokenizer);

// Writes the store as a complete Hugging Face folder with the tokenizer's files. With several ranks rank 0 calls
// this and all others serve_export(), which ends when the export does, well or not.
void export_weights(const std::filesystem::path& to, const ModelSource& source,
                    const shard::ParamStore& store, const text::Tokenizer& tokenizer, Dtype dtype,
                    comm::Communicator* comm = nullptr);
void serve_export(const shard::ParamStore& store, comm::Communicator& comm);

}  // namespace zt::train
