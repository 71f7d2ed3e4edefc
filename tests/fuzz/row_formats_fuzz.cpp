// Any bytes as one row. The first byte chooses the format (modulo 5) and, above that, whether fields are renamed
// and tools left out.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "data/row_formats.h"
#include "data/strict_json.h"
#include "fuzz.h"
#include "text/utf8.h"

using namespace zt;
using namespace zt::data;

namespace {

constexpr recipe::Format kFormats[] = {recipe::Format::text, recipe::Format::completion,
                                       recipe::Format::alpaca, recipe::Format::sharegpt,
                                       recipe::Format::messages};
constexpr std::int64_t kLine = 7, kColumn = 3;  // where the row is said to stand

RowFormat format_of(unsigned choice) {
  RowFormat format{kFormats[choice % 5], {}, (choice / 5) % 2 == 1};
  if ((choice / 10) % 2 == 1)
    for (const std::string& name : field_names(format.format)) format.fields[name] = name.substr(0, 1);
  return format;
}

void check_fault(const RowFault& fault, const std::string& row) {
  FUZZ_CHECK(!fault.reason.empty());
  FUZZ_CHECK(!text::first_invalid_utf8(fault.reason));
  FUZZ_CHECK(std::ranges::none_of(fault.reason, [](char byte) { return byte >= 0 && byte < 0x20; }));
  // The place is one of the row's bytes, or right behind the last one.
  std::size_t line_begin = 0;
  for (std::int64_t line = kLine; line < fault.line; ++line) {
    line_begin = row.find('\n', line_begin);
    FUZZ_CHECK(line_begin != std::string::npos);
    ++line_begin;
  }
  const std::int64_t first_column = fault.line == kLine ? kColumn : 1;
  FUZZ_CHECK(fault.line >= kLine && fault.column >= first_column);
  FUZZ_CHECK(line_begin + static_cast<std::size_t>(fault.column - first_column) <= row.size());
}

void check_document(const Document& document, const RowFormat& format) {
  FUZZ_CHECK(!text::first_invalid_utf8(document.text));
  FUZZ_CHECK(!text::first_invalid_utf8(document.conversation.tools));
  const auto& messages = document.conversation.messages;
  FUZZ_CHECK((format.format == recipe::Format::text) == messages.empty());
  for (const text::Message& message : messages) {
    FUZZ_CHECK(!text::first_invalid_utf8(message.content) && !text::first_invalid_utf8(message.input));
    FUZZ_CHECK(message.role == text::Role::tool || !message.content.empty());
  }
  FUZZ_CHECK(!format.ignore_tools || document.conversation.tools.empty());
}

// Every value's place holds that value and nothing else.
void check_places(std::string_view text, const JsonValue& value, int budget) {
  if (budget == 0) return;
  FUZZ_CHECK(value.begin < value.end && value.end <= text.size());
  JsonValue again;
  JsonFault fault;
  FUZZ_CHECK(parse_strict_json(text.substr(value.begin, value.end - value.begin), &again, &fault));
  FUZZ_CHECK(again.kind == value.kind && again.text == value.text && again.keys == value.keys);
  FUZZ_CHECK(again.begin == 0 && again.end == value.end - value.begin);
  for (const JsonValue& item : value.items) check_places(text, item, budget - 1);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, row] = fuzz::input_of(data, size);
  const RowFormat format = format_of(choice);
  std::vector<RowFault> faults;
  const auto document = document_of({row, 0, kLine, kColumn, std::nullopt, false}, format, faults);
  FUZZ_CHECK(document.has_value() == faults.empty());
  FUZZ_CHECK(faults.size() <= kMaxFaults + 1);
  const auto place = [](const RowFault& fault) { return std::pair(fault.line, fault.column); };
  FUZZ_CHECK(std::ranges::is_sorted(faults, {}, place));
  for (const RowFault& fault : faults) check_fault(fault, row);
  if (document) check_document(*document, format);

  JsonValue value;
  JsonFault fault;
  if (parse_strict_json(row, &value, &fault)) {
    FUZZ_CHECK(nlohmann::json::accept(row));
    check_places(row, value, 4);
  } else {
    FUZZ_CHECK(fault.offset <= row.size());
  }
  return 0;
}
