#include "app/prompts.h"

#include "base/error.h"
#include "base/text.h"
#include "data/row_formats.h"
#include "data/source.h"
#include "text/utf8.h"

namespace zt::app {

bool holds_rows(const std::filesystem::path& path) {
  recipe::Source source;
  source.path = path;
  source.format = recipe::Format::text;
  return data::holds_rows(source);
}

// What is asked in a conversation, and what it answers itself.
static FilePrompt asked(text::Conversation conversation, std::string place) {
  FilePrompt prompt{std::move(conversation), std::nullopt, std::move(place)};
  auto& messages = prompt.conversation.messages;
  if (messages.back().role == text::Role::assistant) {
    prompt.expected = messages.back().content;
    messages.pop_back();
  }
  return prompt;
}

static std::vector<FilePrompt> read_rows(const std::filesystem::path& path, Problems& problems) {
  const data::RowFormat format{recipe::Format::messages, {}, false};
  data::RowReader reader(path);
  std::vector<FilePrompt> prompts;
  data::RawRow row;
  while (problems.list().size() < data::kMaxFaults && reader.next(row)) {
    std::vector<data::RowFault> faults;
    const auto document = data::document_of(row, format, faults);
    if (document) {
      prompts.push_back(asked(document->conversation, cat(path.string(), ":", row.line)));
      if (prompts.back().conversation.messages.empty())
        faults.push_back({row.line, row.column, "the row has an answer, but no message before it"});
    }
    for (const data::RowFault& f : faults)
      problems.add(cat(path.string(), ":", f.line, ":", f.column, ": ", f.reason));
  }
  return prompts;
}

static std::vector<FilePrompt> read_lines(const std::filesystem::path& path, Problems& problems) {
  const data::WholeText file(path);
  std::vector<FilePrompt> prompts;
  std::int64_t number = 0;
  for (std::string& line : split(data::without_bom(file.text()), '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (trim(line).empty()) continue;
    const std::string place = cat(path.string(), ":", number);
    if (text::first_invalid_utf8(line)) problems.add(cat(place, ": the line is not UTF-8"));
    text::Conversation conversation;
    conversation.messages.push_back({text::Role::user, line, "", std::nullopt});
    prompts.push_back({std::move(conversation), std::nullopt, place});
  }
  return prompts;
}

std::vector<FilePrompt> read_prompts(const std::filesystem::path& path) {
  Problems problems;
  std::vector<FilePrompt> prompts = (holds_rows(path) ? read_rows : read_lines)(path, problems);
  problems.throw_if_any(
      Blame::data, "--prompts has problems:",
      holds_rows(path) ? "a row is an object with messages of role and content (docs/formats/rows.md)" : "");
  if (prompts.empty()) throw Error(Blame::data, cat("--prompts: ", path.string(), " holds no prompt"));
  return prompts;
}

}  // namespace zt::app
