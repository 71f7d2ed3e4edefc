#include "train/model_source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset.h"
#include "exchange/export.h"

namespace zt::train {

std::unique_ptr<text::Tokenizer> open_tokenizer(const recipe::Recipe& r) {
  if (!r.tokenizer.type) return text::load_tokenizer(*r.tokenizer.path);
  switch (*r.tokenizer.type) {
    case recipe::TokenizerType::byte: return text::byte_tokenizer();
    case recipe::TokenizerType::character: return text::char_tokenizer(data::training_text(r.data));
  }
  return nullptr;
}

static void check_vocabulary(const spec::ModelSpec& spec, const text::Tokenizer& tokenizer) {
  if (tokenizer.vocabulary() <= spec.vocab) return;
  const std::int32_t highest = tokenizer.vocabulary() - 1;
  throw Error(Blame::model,
              cat("the tokenizer can make id ", highest, " ('", tokenizer.token(highest),
                  "'), but the model has only ", spec.vocab, " embedding rows"),
              "use the model's own tokenizer, or a model with a larger vocab_size");
}

ModelSource open_model_folder(const std::filesystem::path& folder) {
  ModelSource source;
  source.folder = std::make_unique<exchange::ModelFolder>(folder);
  source.config = source.folder->config();
  source.spec = spec::from_config(source.config, (folder / "config.json").string());
  source.folder->bind(source.spec);
  source.companions = exchange::companion_files(folder);
  return source;
}

ModelSource open_model(const recipe::Model& model, const text::Tokenizer& tokenizer) {
  if (model.base) {
    ModelSource source = open_model_folder(*model.base);
    check_vocabulary(source.spec, tokenizer);
    return source;
  }
  ModelSource source;
  nlohmann::json config = model.config;
  if (!config.contains("vocab_size")) config["vocab_size"] = tokenizer.vocabulary();
  if (!config.contains("bos_token_id") && tokenizer.bos()) config["bos_token_id"] = *tokenizer.bos();
  if (!config.contains("eos_token_id") && tokenizer.eos()) config["eos_token_id"] = *tokenizer.eos();
  source.spec = spec::from_config(config, "model.config");
  source.spec.init_std = static_cast<float>(model.init_std);
  source.config = spec::to_config(source.spec, config);
  check_vocabulary(source.spec, tokenizer);
  return source;
}

// Elements moved at a time, so that the scratch stays small.
static constexpr std::int64_t kPiece = 1 << 20;

void load_weights(const ModelSource& source, shard::ParamStore& store, std::uint64_t seed) {
  if (source.folder == nullptr) return shard::initialise(store, source.spec, seed);
  std::vector<float> piece(kPiece);
  for (int b = 0; b < static_cast<int>(source.spec.blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : source.spec.blocks[static_cast<std::size_t>(b)].tensors) {
      for (std::int64_t done = 0; done < tensor.elements(); done += kPiece) {
        const std::int64_t count = std::min(kPiece, tensor.elements() - done);
        source.folder->read(tensor, done, std::span<float>(piece.data(), static_cast<std::size_t>(count)));
        store.set(b, tensor.offset + done, piece.data(), count);
      }
    }
  }
}

// Which block of the model holds a tensor.
static int block_of(const spec::ModelSpec& spec, const spec::TensorSpec& tensor) {
  for (std::size_t b = 0; b < spec.blocks.size(); ++b) {
    const spec::TensorSpec* const found = spec.blocks[b].find(tensor.role);
    if (found != nullptr && found->name == tensor.name) return static_cast<int>(b);
  }
  throw Error(Blame::bug, cat("no block holds tensor ", tensor.name));
}

void export_weights(const std::filesystem::path& to, const ModelSource& source,
                    const shard::ParamStore& store, const text::Tokenizer& tokenizer, Dtype dtype) {
  std::map<std::string, std::string> companions = source.companions;
  for (auto& [name, bytes] : tokenizer.files()) companions[name] = bytes;
  std::vector<float> piece(kPiece);
  const exchange::TensorReader read = [&](const spec::TensorSpec& tensor, std::int64_t first,
                                          std::int64_t count, void* dst, Dtype dst_dtype) {
    const int block = block_of(source.spec, tensor);
    for (std::int64_t done = 0; done < count; done += kPiece) {
      const std::int64_t part = std::min(kPiece, count - done);
      store.get(block, tensor.offset + first + done, piece.data(), part);
      exchange::convert(reinterpret_cast<const std::byte*>(piece.data()), Dtype::f32,
                        static_cast<std::byte*>(dst) + done * size_of(dst_dtype), dst_dtype, part);
    }
  };
  exchange::ExportOptions options;
  options.dtype = dtype;
  exchange::export_model(to, source.spec, source.config, options, read, companions);
}

}  // namespace zt::train
