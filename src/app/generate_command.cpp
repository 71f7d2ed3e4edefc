// `generate`: text from a model, for one prompt as it grows or for a file of prompts.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/prompts.h"
#include "base/error.h"
#include "base/text.h"
#include "exec/backend.h"
#include "recipe/words.h"
#include "text/chat_choice.h"
#include "train/generate.h"
#include "train/model_source.h"

namespace zt::app {

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

// The value that an option calls by this name; `what` such values are.
template <typename Choice>
Choice parse_choice(const std::string& option, const std::string& what, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& word : recipe::words(Choice{})) {
    if (name == word.text) return word.value;
    names.emplace_back(word.text);
  }
  throw Error(Blame::usage, cat(option, ": there is no ", what, " '", name, "'"),
              cat("choose one of ", join(names, ", ")));
}

static text::ChatTemplate chat_template(const GenerateArgs& args, const text::Tokenizer& tokenizer) {
  return {
      text::choose_chat(parse_choice<recipe::ChatTemplate>("--template", "chat template", args.chat_template),
                        std::nullopt, recipe::AddBos::automatic, tokenizer, std::nullopt),
      tokenizer};
}

// The ids in front of an answer. Rows with a system message of their own keep it.
static std::vector<std::int32_t> chat_prompt(text::Conversation conversation, const std::string& system,
                                             const text::ChatTemplate& chat) {
  auto& messages = conversation.messages;
  if (!system.empty() && messages.front().role != text::Role::system)
    messages.insert(messages.begin(), {text::Role::system, system, "", std::nullopt});
  return chat.prompt(conversation);
}

static std::vector<std::int32_t> plain_prompt(const std::string& prompt, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  if (const auto start = start_token(tokenizer, prompt.empty())) ids.push_back(*start);
  std::ranges::copy(tokenizer.encode(prompt), std::back_inserter(ids));
  return ids;
}

// A model that is asked: its files, and how prompts become ids.
struct Speaker {
  explicit Speaker(const GenerateArgs& args)
      : source(train::open_any_model(args.model)),
        tokenizer(text::load_tokenizer(train::tokenizer_folder(args.model))),
        stop(source.spec.eos_tokens.begin(), source.spec.eos_tokens.end()),
        sampling{args.greedy, args.temperature, args.top_p, args.max_tokens, args.seed},
        system(args.system),
        backend(parse_choice<recipe::Device>("--device", "device", args.device)) {
    if (!args.chat) return;
    chat.emplace(chat_template(args, *tokenizer));
    stop.push_back(chat->turn_end());
  }

  std::vector<std::int32_t> ids_of(const text::Conversation& prompt) const {
    std::vector<std::int32_t> ids =
        chat ? chat_prompt(prompt, system, *chat) : plain_prompt(prompt.messages.back().content, *tokenizer);
    train::require_prompt(ids, source.spec.max_positions);
    return ids;
  }

  // Weights, and a cache that need not hold more than the longest text can use.
  std::unique_ptr<exec::Decoder> decoder(std::size_t longest_prompt) const {
    const std::int64_t wanted = static_cast<std::int64_t>(longest_prompt) + sampling.max_tokens;
    const std::int64_t context = source.spec.max_positions;
    const exec::Decoder::Place place = {&backend->device(),
                                        [this](Dtype dtype) { return backend->make_kernels(dtype); }};
    auto made = std::make_unique<exec::Decoder>(source.spec, Dtype::f32,
                                                std::min(context, std::max<std::int64_t>(1, wanted)), place);
    train::load_weights(source, made->params(), 0);
    return made;
  }

  train::ModelSource source;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<int> stop;  // ids after which an answer is complete
  train::SamplingOptions sampling;
  std::string system;
  std::optional<text::ChatTemplate> chat;
  exec::LoneBackend backend;
};

static int speak(const Speaker& speaker, const std::string& prompt) {
  text::Conversation conversation;
  conversation.messages.push_back({text::Role::user, prompt, "", std::nullopt});
  const std::vector<std::int32_t> ids = speaker.ids_of(conversation);
  const auto decoder = speaker.decoder(ids.size());
  TextStream out(*speaker.tokenizer);
  // A text goes on from its prompt; an answer stands alone.
  if (!speaker.chat)
    for (const std::int32_t id : speaker.tokenizer->encode(prompt)) out.add(id);
  train::generate(*decoder, ids, speaker.stop, speaker.sampling, [&out](std::int32_t id) { out.add(id); });
  out.finish();
  return 0;
}

// All prompts are read and measured before the first answer, so that a fault in the last one costs no time.
static std::vector<std::vector<std::int32_t>> ids_of_all(const Speaker& speaker,
                                                         const std::vector<FilePrompt>& prompts) {
  std::vector<std::vector<std::int32_t>> all;
  Problems problems;
  for (const FilePrompt& prompt : prompts) {
    try {
      all.push_back(speaker.ids_of(prompt.conversation));
    } catch (const Error& e) {
      problems.add(cat(prompt.place, ": ", e.problem()));
    }
  }
  problems.throw_if_any(Blame::data, "--prompts has problems:");
  return all;
}

static int answer_all(const Speaker& speaker, const std::vector<FilePrompt>& prompts) {
  const auto ids = ids_of_all(speaker, prompts);
  const auto longest = std::ranges::max_element(ids, {}, [](const auto& one) { return one.size(); });
  const auto decoder = speaker.decoder(longest->size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    decoder->clear();
    const auto answer =
        train::generate(*decoder, ids[i], speaker.stop, speaker.sampling, [](std::int32_t) {});
    nlohmann::ordered_json line = {{"prompt", prompts[i].last_message()},
                                   {"answer", speaker.tokenizer->decode(answer)}};
    if (prompts[i].expected) line["expected"] = *prompts[i].expected;
    // A model may write bytes that are no text; JSON may not.
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

int generate(const GenerateArgs& args) {
  if (args.prompts.empty()) return speak(Speaker(args), args.prompt);
  if (!args.chat && holds_rows(args.prompts))
    throw Error(Blame::usage, cat("--prompts: the rows of ", args.prompts, " are conversations"),
                "add --chat; without it give a text file with a prompt a line");
  const std::vector<FilePrompt> prompts = read_prompts(args.prompts);
  return answer_all(Speaker(args), prompts);
}

}  // namespace zt::app
