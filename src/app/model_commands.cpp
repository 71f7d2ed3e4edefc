// Commands about a model folder: text from it, its tokenizer, another copy of it.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "app/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "recipe/words.h"
#include "text/chat_choice.h"
#include "train/generate.h"
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

// Prints text as it grows; a character cut between two tokens waits for its other bytes.
class TextStream {
 public:
  explicit TextStream(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(std::int32_t id) {
    ids_.push_back(id);
    const std::string text = tokenizer_.decode(ids_);
    const std::size_t end = complete(text);
    if (end <= printed_) return;
    std::cout << text.substr(printed_, end - printed_) << std::flush;
    printed_ = end;
  }
  void finish() {
    const std::string text = tokenizer_.decode(ids_);
    if (text.size() > printed_) std::cout << text.substr(printed_);
    std::cout << std::endl;
  }

 private:
  static std::size_t complete(const std::string& text) {
    std::size_t start = text.size();
    while (start > 0 && text.size() - start < 4 &&
           (static_cast<unsigned char>(text[start - 1]) & 0xC0) == 0x80)
      --start;
    if (start == 0) return text.size();
    const auto lead = static_cast<unsigned char>(text[start - 1]);
    const std::size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return text.size() - (start - 1) < need ? start - 1 : text.size();
  }
  const text::Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t printed_ = 0;
};

// What a text begins with: the beginning token where the tokenizer wants one or there is no prompt; models
// that have only an end token were trained to begin after it.
static std::optional<std::int32_t> start_token(const text::Tokenizer& tokenizer, bool no_prompt) {
  if (tokenizer.bos() && (tokenizer.adds_bos() || no_prompt)) return tokenizer.bos();
  return no_prompt ? tokenizer.eos() : std::nullopt;
}

static recipe::ChatTemplate parse_template(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& word : recipe::words(recipe::ChatTemplate{})) {
    if (name == word.text) return word.value;
    names.emplace_back(word.text);
  }
  throw Error(Blame::usage, cat("--template: there is no chat template '", name, "'"),
              cat("choose one of ", join(names, ", ")));
}

// What the model sees, and after which ids its answer is complete.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::vector<int> stop;
  bool shown = true;  // the text goes on from the prompt, so it is printed first
};

static Prompt chat_prompt(const GenerateArgs& args, const text::Tokenizer& tokenizer, std::vector<int> stop) {
  const text::ChatTemplate chat(text::choose_chat(parse_template(args.chat_template), std::nullopt,
                                                  recipe::AddBos::automatic, tokenizer, std::nullopt),
                                tokenizer);
  text::Conversation conversation;
  if (!args.system.empty())
    conversation.messages.push_back({text::Role::system, args.system, "", std::nullopt});
  conversation.messages.push_back({text::Role::user, args.prompt, "", std::nullopt});
  stop.push_back(chat.turn_end());
  return {chat.prompt(conversation), std::move(stop), false};
}

static Prompt plain_prompt(const GenerateArgs& args, const text::Tokenizer& tokenizer,
                           std::vector<int> stop) {
  Prompt prompt{{}, std::move(stop)};
  if (const auto start = start_token(tokenizer, args.prompt.empty())) prompt.ids.push_back(*start);
  std::ranges::copy(tokenizer.encode(args.prompt), std::back_inserter(prompt.ids));
  return prompt;
}

int generate(const GenerateArgs& args) {
  const train::ModelSource source = train::open_any_model(args.model);
  const auto tokenizer = text::load_tokenizer(train::tokenizer_folder(args.model));
  const std::vector<int> ends(source.spec.eos_tokens.begin(), source.spec.eos_tokens.end());
  const Prompt start = (args.chat ? chat_prompt : plain_prompt)(args, *tokenizer, ends);
  const std::vector<std::int32_t>& prompt = start.ids;
  train::require_prompt(prompt, source.spec.max_positions);

  // The cache need not hold more than this text can use.
  const auto wanted = static_cast<std::int64_t>(prompt.size()) + args.max_tokens;
  const std::int64_t context = source.spec.max_positions;
  exec::Decoder decoder(source.spec, Dtype::f32, std::min(context, std::max<std::int64_t>(1, wanted)));
  train::load_weights(source, decoder.params(), 0);
  TextStream out(*tokenizer);
  if (start.shown)
    for (const std::int32_t id : tokenizer->encode(args.prompt)) out.add(id);
  const train::SamplingOptions options{args.greedy, args.temperature, args.top_p, args.max_tokens, args.seed};
  train::generate(decoder, prompt, start.stop, options, [&out](std::int32_t id) { out.add(id); });
  out.finish();
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
