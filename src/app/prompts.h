// Files of prompts for `generate --prompts`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/conversation.h"

namespace zt::app {

struct FilePrompt {
  text::Conversation conversation;      // up to the answer to come; of a line of text one user message
  std::optional<std::string> expected;  // the row's own last answer
  std::string place;                    // file:line
  const std::string& last_message() const { return conversation.messages.back().content; }
};

// Whether a file of prompts has rows, by its name: .json, .jsonl or .ndjson, also with .gz.
bool holds_rows(const std::filesystem::path& path);

// The prompts of a file, in order: of one that holds rows, those of format `messages`, whose last answer, where a row ends
// in one, is set apart; of any other a prompt a line, blank ones skipped.
// Throws Error(data) with all faults of the file, or where it holds no prompt.
std::vector<FilePrompt> read_prompts(const std::filesystem::path& path);

}  // namespace zt::app
