// Public instruction files, read as they were published. Counts: the files' own publishers, and the list beside
// the test data, made with another JSON reader.
#include <doctest/doctest.h>

#include <map>

#include "base/text.h"
#include "data/row_formats.h"
#include "packed.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::data;
using recipe::Format;
using text::Role;

namespace {

struct Summary {
  int rows = 0, refused = 0, messages = 0, with_tools = 0;
  std::map<Role, int> roles;
  std::map<std::optional<bool>, int> trained;
  std::vector<RowFault> faults;
};

Summary summary_of(RowReader reader, const RowFormat& format) {
  Summary out;
  RawRow row;
  while (reader.next(row)) {
    ++out.rows;
    const auto document = document_of(row, format, out.faults);
    out.refused += !document;
    if (!document) continue;
    out.with_tools += !document->conversation.tools.empty();
    for (const text::Message& message : document->conversation.messages) {
      ++out.messages;
      ++out.roles[message.role];
      ++out.trained[message.trained];
    }
  }
  return out;
}

std::optional<Summary> summary_of(const std::string& file, const RowFormat& format) {
  const auto path = test::test_data("instruct/" + file);
  if (!path) return std::nullopt;
  return summary_of(RowReader(*path), format);
}

}  // namespace

TEST_CASE("real rows: files of every format give the published numbers of rows, and no fault") {
  const std::map<std::string, std::string> questions = {{"prompt", "question"}, {"completion", "answer"}};
  struct Case {
    const char* file;
    RowFormat format;
    int rows, messages;
  };
  const Case cases[] = {
      {"alpaca/instruction-data.json", {Format::alpaca, {}, false}, 1100, 2200},
      {"alpaca/identity.json", {Format::alpaca, {}, false}, 91, 182},
      {"preference/instruction-data-with-preference.json", {Format::alpaca, {}, false}, 1100, 2200},
      {"gsm8k/train.jsonl", {Format::completion, questions, false}, 7473, 14946},
      {"gsm8k/test.jsonl", {Format::completion, questions, false}, 1319, 2638},
      {"sharegpt/fastchat_dummy_conversation.json", {Format::sharegpt, {}, false}, 500, 2000},
      {"sharegpt/axolotl_conversation.json", {Format::sharegpt, {}, false}, 1, 12},
      {"messages/oasst_en_100_best_thread.messages.jsonl",
       {Format::messages, {}, false},
       100,
       58 * 2 + 42 * 4},
  };
  for (const Case& c : cases) {
    const auto got = summary_of(c.file, c.format);
    if (!got) return;
    INFO(c.file);
    for (const RowFault& fault : got->faults) FAIL_CHECK(fault.line, ":", fault.column, ": ", fault.reason);
    CHECK(got->rows == c.rows);
    CHECK(got->messages == c.messages);
    // The same packed.
    const std::string bytes = test::read_file(*test::test_data("instruct/" + std::string(c.file)));
    const Summary packed = summary_of(RowReader(ByteStream(test::gzip(bytes), "packed")), c.format);
    CHECK(packed.messages == c.messages);
    CHECK(packed.faults.empty());
  }
}

TEST_CASE("real rows: glaive's tool conversations keep their four roles and their tools") {
  for (const bool ignore : {false, true}) {
    const auto got = summary_of("sharegpt/glaive_toolcall_en_demo.json", {Format::sharegpt, {}, ignore});
    if (!got) return;
    CHECK(got->faults.empty());
    CHECK(got->rows == 300);
    // function_call is said by the assistant.
    CHECK(got->roles ==
          std::map<Role, int>{{Role::user, 746}, {Role::assistant, 746 + 211}, {Role::tool, 211}});
    CHECK(got->with_tools == (ignore ? 0 : 300 - 109));  // 109 rows say "[]"
  }
}

TEST_CASE("real rows: weights of messages are read from typed messages") {
  const auto got = summary_of("messages/v1_sft_demo.jsonl", {Format::messages, {}, false});
  if (!got) return;
  CHECK(got->faults.empty());
  CHECK(got->rows == 500);
  CHECK(got->trained == std::map<std::optional<bool>, int>{{false, 500}, {true, 500}});
}

TEST_CASE("real rows: answers marked as ones to avoid are refused, the others read") {
  const auto got = summary_of("preference/kto_en_demo.json", {Format::messages, {}, false});
  if (!got) return;
  CHECK(got->rows == 300);
  CHECK(got->refused == 150);
  CHECK(got->messages == 492);
  CHECK(got->faults.at(0).reason.find("label is false") == 0);
}

TEST_CASE("real rows: what cannot be read is refused in every row, by name") {
  struct Case {
    const char* file;
    Format format;
    int rows;
    const char* reason;
  };
  const Case cases[] = {
      {"alpaca/self_instruct_seed_tasks.jsonl", Format::alpaca, 175,
       "output is missing; there is id, name, instruction, instances, is_classification; these are "
       "self-instruct "
       "tasks"},
      {"alpaca/self_instruct_user_oriented.jsonl", Format::alpaca, 252, "these are self-instruct tasks"},
      {"messages/oasst_en_100_tree.jsonl", Format::messages, 100,
       "messages is missing; there is message_tree_id, tree_state, prompt; these are OpenAssistant "
       "trees"},
      {"messages/reason_tool_use_demo_50.jsonl", Format::messages, 50,
       "is of type reasoning, and only text is read"},
      {"preference/dpo_en_demo.json", Format::sharegpt, 300, "the answer stands in chosen"},
      {"embedding/nq.jsonl", Format::completion, 10, "pairs for retrieval"},
      {"sharegpt/axolotl_conversation.missingturns.json", Format::sharegpt, 1,
       "conversations[1].value must not be empty"},
      {"gsm8k/test.jsonl", Format::alpaca, 1319, "instruction is missing; there is question, answer"},
  };
  for (const Case& c : cases) {
    const auto got = summary_of(c.file, {c.format, {}, false});
    if (!got) return;
    INFO(c.file);
    CHECK(got->rows == c.rows);
    CHECK(got->refused == c.rows);
    INFO("first fault: ", got->faults.at(0).reason);
    CHECK(got->faults.at(0).reason.find(c.reason) != std::string::npos);
  }
}
