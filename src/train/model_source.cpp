#include "train/model_source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/open_data.h"
#include "exchange/export.h"
#include "tensor/convert.h"

namespace zt::train {

std::unique_ptr<text::Tokenizer> open_tokenizer(const recipe::Recipe& r) {
  if (!r.tokenizer.type) return text::load_tokenizer(*r.tokenizer.path);
  switch (*r.tokenizer.type) {
    case recipe::TokenizerType::byte: return text::byte_tokenizer();
    case recipe::TokenizerType::character: return text::char_tokenizer(data::training_text(r.data));
  }
  return nullptr;
}

void check_vocabulary(const spec::ModelSpec& spec, const text::Tokenizer& tokenizer) {
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

ModelSource open_checkpoint_model(const std::filesystem::path& folder) {
  ModelSource source;
  source.checkpoint = std::make_shared<checkpoint::Checkpoint>(checkpoint::Checkpoint::open(folder));
  source.config = source.checkpoint->state().model_config;
  source.spec = spec::from_config(source.config, (folder / checkpoint::kManifestFile).string());
  source.companions = source.checkpoint->companions();
  source.companions.erase("config.json");
  return source;
}

ModelSource open_any_model(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / checkpoint::kManifestFile) ? open_checkpoint_model(folder)
                                                                     : open_model_folder(folder);
}

std::filesystem::path tokenizer_folder(const std::filesystem::path& model) {
  return std::filesystem::exists(model / checkpoint::kManifestFile) ? model / checkpoint::kCompanions : model;
}

ModelSource open_model(const recipe::Model& model, const text::Tokenizer& tokenizer) {
  if (model.base) {
    ModelSource source = open_any_model(*model.base);
    check_vocabulary(source.spec, tokenizer);
    return source;
  }
  ModelSource source;
  nlohmann::json config = model.config;
  if (!config.contains("vocab_size")) config["vocab_size"] = tokenizer.vocabulary();
  if (!config.contains("bos_token_id") && tokenizer.bos()) config["bos_token_id"] = *tokenizer.bos();
  if (!config.contains("eos_token_id") && tokenizer.eos()) config["eos_token_id"] = *tokenizer.eos();
  source.spec = spec::from_config(config, "model.config");
  // The same number by two names: Hugging Face's in the config, ours in the recipe.
  if (!config.contains("initializer_range")) {
    source.spec.init_std = static_cast<float>(model.init_std);
  } else if (model.init_std != recipe::Model().init_std &&
             static_cast<float>(model.init_std) != source.spec.init_std) {
    throw Error(Blame::usage,
                cat("model.init_std is ", model.init_std, ", but model.config.initializer_range is ",
                    source.spec.init_std),
                "give one of them");
  }
  source.config = spec::to_config(source.spec, config);
  check_vocabulary(source.spec, tokenizer);
  return source;
}

// Elements moved at a time, so that the scratch stays small.
static constexpr std::int64_t kPiece = 1 << 20;

void load_weights(const ModelSource& source, shard::ParamStore& store, std::uint64_t seed) {
  if (source.folder == nullptr && !source.checkpoint) return shard::initialise(store, source.spec, seed);
  std::vector<float> piece(kPiece);
  for (int b = 0; b < static_cast<int>(source.spec.blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : source.spec.blocks[static_cast<std::size_t>(b)].tensors) {
      const plan::Range wanted = overlap(store.needed(b), {tensor.offset, tensor.elements()});
      for (std::int64_t at = wanted.first; at < wanted.end(); at += kPiece) {
        const std::int64_t count = std::min(kPiece, wanted.end() - at), first = at - tensor.offset;
        const std::span<float> values(piece.data(), static_cast<std::size_t>(count));
        if (source.checkpoint)
          source.checkpoint->read(tensor.name, checkpoint::Kind::value, first, values);
        else
          source.folder->read(tensor, first, values);
        store.set(b, at, piece.data(), count);
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

// A range that rank 0 wants next; a block below 0 ends it.
struct Wish {
  std::int64_t block = -1, first = 0, count = 0;
};

// Each owner sends its share of the range to all. Collective.
static void send_shares(const Wish& wish, const shard::ParamStore& store, comm::Communicator& comm,
                        float* values) {
  const int block = static_cast<int>(wish.block);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const plan::Range share = overlap(store.layout(block).owned(rank), {wish.first, wish.count});
    if (share.count == 0) continue;
    float* const at = values + (share.first - wish.first);
    if (rank == comm.rank()) store.get(block, share.first, at, share.count);
    comm.broadcast(at, share.count * std::int64_t{sizeof(float)}, rank);
  }
}

void serve_export(const shard::ParamStore& store, comm::Communicator& comm) {
  comm.doing("exporting");
  std::vector<float> piece(kPiece);
  Wish wish;
  while (true) {
    comm.broadcast(&wish, sizeof wish, 0);
    if (wish.block < 0) return;
    send_shares(wish, store, comm, piece.data());
  }
}

std::map<std::string, std::string> export_companions(const ModelSource& source,
                                                     const text::Tokenizer& tokenizer) {
  std::map<std::string, std::string> companions = source.companions;
  for (auto& [name, bytes] : tokenizer.files()) companions[name] = bytes;
  // Readers take this file before what tokenizer_config.json says.
  if (!source.chat_template.empty()) companions["chat_template.jinja"] = source.chat_template;
  return companions;
}

void export_weights(const std::filesystem::path& to, const ModelSource& source,
                    const shard::ParamStore& store, const text::Tokenizer& tokenizer, Dtype dtype,
                    comm::Communicator* comm) {
  if (comm != nullptr) comm->doing("exporting");
  std::vector<float> piece(kPiece);
  const exchange::TensorReader read = [&](const spec::TensorSpec& tensor, std::int64_t first,
                                          std::int64_t count, void* dst, Dtype dst_dtype) {
    const int block = block_of(source.spec, tensor);
    for (std::int64_t done = 0; done < count; done += kPiece) {
      const std::int64_t part = std::min(kPiece, count - done);
      Wish wish{block, tensor.offset + first + done, part};
      if (comm == nullptr) {
        store.get(block, wish.first, piece.data(), part);
      } else {
        comm->broadcast(&wish, sizeof wish, 0);
        send_shares(wish, store, *comm, piece.data());
      }
      convert(piece.data(), Dtype::f32, static_cast<std::byte*>(dst) + done * size_of(dst_dtype), dst_dtype,
              part);
    }
  };
  exchange::ExportOptions options;
  options.dtype = dtype;
  const auto end = [comm] {
    Wish none;
    if (comm != nullptr) comm->broadcast(&none, sizeof none, 0);
  };
  try {
    exchange::export_model(to, source.spec, source.config, options, read,
                           export_companions(source, tokenizer));
  } catch (...) {
    end();  // the others must not wait for wishes
    throw;
  }
  end();
}

}  // namespace zt::train
