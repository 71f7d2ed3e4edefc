// Rows as documents: what the fields of each file format mean. docs/formats/rows.md is the page for people.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/row_reader.h"
#include "recipe/settings.h"
#include "text/conversation.h"

namespace zt::data {

struct RowFormat {
  recipe::Format format = recipe::Format::text;
  std::map<std::string, std::string> fields;  // our name of a field -> the file's
  bool ignore_tools = false;                  // leave tool definitions out
};

struct Document {
  std::string text;                 // of Format::text only
  text::Conversation conversation;  // of all others
};

// The document of a row, or nothing and all its faults (at most kMaxFaults and a line that counts the rest), in
// the order of the file; a fault the row came with is handed on. Nothing is ever made a text that wasn't one.
constexpr std::size_t kMaxFaults = 16;
std::optional<Document> document_of(const RawRow& row, const RowFormat& format,
                                    std::vector<RowFault>& faults);

// The names that `fields` may rename in a format, in the order of the manual.
std::vector<std::string> field_names(recipe::Format format);

// The table of fields (Markdown) that docs/formats/rows.md holds: what absent, null and empty mean for each.
std::string field_table();
// The table of role names (Markdown) in the same page.
std::string role_table();

}  // namespace zt::data
