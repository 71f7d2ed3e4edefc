// Reads the folder around tokenizer.json or tokenizer.model.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "base/contained.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "text/hf_tokenizer.h"
#include "text/json_fields.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

namespace fs = std::filesystem;

// What belongs to a tokenizer, in the order of export.
constexpr std::array<const char*, 10> kFileNames = {
    "tokenizer.json",  "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "tokenizer.model", "tokenizer.model.v3",    "tokenizer.model.v1",      "vocab.json",
    "merges.txt",      "chat_template.jinja"};
// SentencePiece models, as most publishers and as Mistral name them; the first that is there is read.
constexpr std::array<const char*, 3> kModelNames = {"tokenizer.model", "tokenizer.model.v3",
                                                    "tokenizer.model.v1"};
constexpr std::int64_t kFileLimit = std::int64_t{256} << 20;

class Folder {
 public:
  explicit Folder(const fs::path& dir) : dir_(dir) {
    std::error_code ignored;
    if (!fs::is_directory(dir, ignored))
      throw Error(Blame::model, cat(dir.string(), " is not a folder with a tokenizer in it"));
    for (const char* name : kFileNames) {
      require_contained(dir, name, Blame::model);
      if (fs::is_regular_file(dir / name, ignored))
        files_.emplace_back(name, read_text_file(dir / name, Blame::model, kFileLimit));
    }
  }
  const std::string* find(std::string_view name) const {
    for (const auto& [known, bytes] : files_)
      if (known == name) return &bytes;
    return nullptr;
  }
  // An empty object where the file is absent.
  Json json(const char* name) const {
    const std::string* bytes = find(name);
    return bytes == nullptr ? Json::object() : parse_json(*bytes, (dir_ / name).string());
  }
  Json model_config() const {
    std::error_code ignored;
    const fs::path path = dir_ / "config.json";
    require_contained(dir_, "config.json", Blame::model);
    if (!fs::is_regular_file(path, ignored)) return Json::object();
    return parse_json(read_text_file(path, Blame::model, kFileLimit), path.string());
  }
  const Files& files() const { return files_; }
  const fs::path& path() const { return dir_; }

 private:
  fs::path dir_;
  Files files_;
};

// GPT-2's older form as the tokenizer.json that means the same.
// Source: huggingface/transformers, convert_slow_tokenizer.py, GPT2Converter.
Json gpt2_description(const Folder& folder, const Json& config) {
  const std::string kind = text_or(config, "tokenizer_class", "GPT2Tokenizer", "tokenizer_config.json");
  if (kind != "GPT2Tokenizer" && kind != "GPT2TokenizerFast")
    throw Error(Blame::model,
                cat(folder.path().string(), " has vocab.json and merges.txt of a ", kind,
                    "; only GPT2Tokenizer is read in this form"),
                "save the tokenizer once with `transformers`: it writes tokenizer.json");
  if (const auto at = first_invalid_utf8(*folder.find("merges.txt")))
    throw Error(Blame::model, cat("merges.txt is not UTF-8 at byte ", *at));
  Json merges = Json::array();
  const std::vector<std::string> lines = split(*folder.find("merges.txt"), '\n');
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!trim(lines[i]).empty() && !(i == 0 && starts_with(lines[i], "#version")))
      merges.push_back(std::string(trim(lines[i])));
  const Json vocab = folder.json("vocab.json");
  const bool prefix = flag_or(config, "add_prefix_space", false, "tokenizer_config.json");
  Json added = Json::array();
  if (vocab.contains("<|endoftext|>"))
    added.push_back({{"id", vocab["<|endoftext|>"]},
                     {"content", "<|endoftext|>"},
                     {"special", true},
                     {"normalized", true}});
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
          {"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

// "</s>" or {"content": "</s>", ...}.
std::optional<std::string> token_text(const Json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  return text_member(value, "content", where);
}

// A token's text by its id.
using TokenOfId = std::function<std::optional<std::string>(const Json& id)>;

std::optional<std::string> token_of_description(const Json& description, const Json& value) {
  if (present(description, "added_tokens") && description["added_tokens"].is_array())
    for (const Json& token : description["added_tokens"])
      if (present(token, "id") && token["id"] == value) return text_or(token, "content", "", "added_tokens");
  if (present(description, "model") && present(description["model"], "vocab") &&
      description["model"]["vocab"].is_object())
    for (const auto& [token, id] : description["model"]["vocab"].items())
      if (id == value) return token;
  return std::nullopt;
}

std::optional<std::string> token_of_pieces(const SentencePieceFile& file, const Json& value) {
  const auto size = std::int64_t(file.pieces.size());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < std::uint64_t(size))
    return file.pieces[value.get<std::size_t>()].text;
  return std::nullopt;
}

// The text of id `key` (or of the first of a list) in config.json, if the tokenizer has it.
std::optional<std::string> token_of_config_id(const Json& config, const char* key, const TokenOfId& token) {
  if (!present(config, key)) return std::nullopt;
  const Json& value = config[key].is_array() && !config[key].empty() ? config[key][0] : config[key];
  return value.is_number_integer() ? token(value) : std::nullopt;
}

// A role is decided by the first file that speaks of it; null there means "none".
std::optional<std::string> role(const Folder& folder, const Json& config, const TokenOfId& token,
                                const std::string& name) {
  const std::string key = name + "_token";
  if (config.contains(key)) return token_text(config[key], "tokenizer_config.json." + key);
  const Json map = folder.json("special_tokens_map.json");
  if (map.contains(key)) return token_text(map[key], "special_tokens_map.json." + key);
  return token_of_config_id(folder.model_config(), (key + "_id").c_str(), token);
}

std::optional<bool> flag(const Json& config, const char* key) {
  if (!present(config, key)) return std::nullopt;
  return flag_or(config, key, false, "tokenizer_config.json");
}

// Files that list added tokens in addition to tokenizer.json. An equal entry there changes nothing.
std::vector<AddedToken> tokens_beside(const Folder& folder, const Json& config) {
  std::vector<AddedToken> tokens;
  const auto parsed_id = [](const std::string& text) {
    std::int64_t id = -1;
    if (!parse_int(text, &id))
      throw Error(Blame::model, cat("tokenizer_config.json.added_tokens_decoder: '", text, "' is no id"));
    return id;
  };
  if (present(config, "added_tokens_decoder"))
    for (const auto& [id, object] : config["added_tokens_decoder"].items())
      tokens.push_back(
          added_token_from_json(object, parsed_id(id), "tokenizer_config.json.added_tokens_decoder." + id));
  const Json list = folder.json("added_tokens.json");
  for (const auto& [content, id] : list.items()) {
    if (!id.is_number_integer())
      throw Error(Blame::model, cat("added_tokens.json: '", content, "' has no whole number as id"));
    tokens.push_back(
        added_token_from_json({{"content", content}}, id.get<std::int64_t>(), "added_tokens.json"));
  }
  return tokens;
}

bool has_text(const Json& description, const std::string& token) {
  return present(description, "model") && present(description["model"], "vocab") &&
         description["model"]["vocab"].contains(token);
}

TokenizerSettings read_settings(const Folder& folder, const Json& config, const TokenOfId& token) {
  TokenizerSettings settings;
  settings.bos = role(folder, config, token, "bos");
  settings.eos = role(folder, config, token, "eos");
  settings.pad = role(folder, config, token, "pad");
  settings.add_bos = flag(config, "add_bos_token");
  settings.add_eos = flag(config, "add_eos_token");
  settings.added = tokens_beside(folder, config);
  return settings;
}

std::unique_ptr<Tokenizer> from_description(const Folder& folder, const Json& config,
                                            const Json& description) {
  TokenizerSettings settings =
      read_settings(folder, config, [&](const Json& id) { return token_of_description(description, id); });
  // GPT-2 was published without the files that name its only special token.
  const bool silent =
      folder.find("tokenizer_config.json") == nullptr && folder.find("special_tokens_map.json") == nullptr;
  const std::string end = "<|endoftext|>";
  if (silent && !settings.eos && has_text(description, end)) settings.bos = settings.eos = end;
  return std::make_unique<HfTokenizer>(description, settings, folder.files());
}

// Classes of transformers that take the model's own ids; others renumber or rewrite.
constexpr std::array<const char*, 6> kModelClasses = {"LlamaTokenizer",     "LlamaTokenizerFast",
                                                      "CodeLlamaTokenizer", "CodeLlamaTokenizerFast",
                                                      "GemmaTokenizer",     "GemmaTokenizerFast"};

std::unique_ptr<Tokenizer> from_model(const Folder& folder, const Json& config, const std::string& name) {
  const std::string& bytes = *folder.find(name);
  if (is_tiktoken_file(bytes))
    throw Error(Blame::model,
                cat(name, " is in tiktoken's form (lines of base64 and rank), which is not read"),
                "the model's Hugging Face folder has the same tokenizer as tokenizer.json: take that one");
  const std::string kind = text_or(config, "tokenizer_class", "LlamaTokenizer", "tokenizer_config.json");
  if (std::find(kModelClasses.begin(), kModelClasses.end(), kind) == kModelClasses.end())
    throw Error(Blame::model, cat(name, " belongs to a ", kind, ", which is not supported"),
                "save the tokenizer once with `transformers`: it writes tokenizer.json");
  const SentencePieceFile file = read_sentencepiece_file(bytes);
  TokenizerSettings settings =
      read_settings(folder, config, [&](const Json& id) { return token_of_pieces(file, id); });
  settings.prefix_space = flag(config, "add_prefix_space");
  // transformers puts the space after special tokens too, unless told that this was a mistake.
  settings.prefix_after_tokens = flag(config, "legacy").value_or(true);
  return std::make_unique<SentencePieceTokenizer>(file, bytes, settings, folder.files());
}

std::unique_ptr<Tokenizer> from_folder(const Folder& folder) {
  const Json config = folder.json("tokenizer_config.json");
  if (folder.find("tokenizer.json") != nullptr)
    return from_description(folder, config, folder.json("tokenizer.json"));
  for (const char* name : kModelNames)
    if (folder.find(name) != nullptr) return from_model(folder, config, name);
  if (folder.find("vocab.json") != nullptr && folder.find("merges.txt") != nullptr)
    return from_description(folder, config, gpt2_description(folder, config));
  throw Error(Blame::model,
              cat("no tokenizer.json, no tokenizer.model, nor vocab.json with merges.txt is there"),
              "is this the model's folder?");
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& dir) {
  const Folder folder(dir);
  try {
    return from_folder(folder);
  } catch (const Error& e) {
    throw Error(e.blame(), cat(dir.string(), ": ", e.problem()), e.hint());
  }
}

}  // namespace zt::text
