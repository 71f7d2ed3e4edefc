// Commands about a model folder: its tokenizer, another copy of it.
#include <iostream>
#include <sstream>

#include "app/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/model_source.h"

namespace zt::app {

static std::unique_ptr<text::Tokenizer> tokenizer_of(const std::string& name) {
  return name == "byte" ? text::byte_tokenizer() : text::load_tokenizer(train::tokenizer_folder(name));
}

static std::vector<std::int32_t> parse_ids(const std::string& line, std::int64_t number,
                                           const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    std::int64_t id = 0;
    if (!parse_int(word, &id) || id < 0 || id >= tokenizer.vocabulary())
      throw Error(Blame::data,
                  cat("stdin:", number, ": '", word, "' is not an id below ", tokenizer.vocabulary()));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

int tokenize(const std::string& name, bool decode) {
  const auto tokenizer = tokenizer_of(name);
  std::int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (decode) {
      std::cout << tokenizer->decode(parse_ids(line, number, *tokenizer)) << "\n";
    } else {
      std::cout << fmt::format("{}\n", fmt::join(tokenizer->encode(line), " "));
    }
  }
  return 0;
}

// The format a model's weights are kept in; of a checkpoint, the run's.
static Dtype stored_dtype(const train::ModelSource& source) {
  if (!source.checkpoint) return source.folder->stored_dtype();
  Dtype dtype = Dtype::f32;
  parse_dtype(source.checkpoint->state().dtype, &dtype);
  return dtype;
}

int export_folder(const std::string& model, const std::string& to, const std::string& dtype) {
  const train::ModelSource source = train::open_any_model(model);
  const auto tokenizer = text::load_tokenizer(train::tokenizer_folder(model));
  Dtype wanted = stored_dtype(source);
  if (dtype == "bf16") wanted = Dtype::bf16;
  if (dtype == "f16") wanted = Dtype::f16;
  if (dtype == "f32") wanted = Dtype::f32;
  shard::ParamStore store(source.spec, Dtype::f32, false);
  train::load_weights(source, store, 0);
  train::export_weights(to, source, store, *tokenizer, wanted);
  log::info(cat("model exported to ", to));
  return 0;
}

}  // namespace zt::app
