#include "data/row_formats.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "data/row_fields.h"
#include "packed.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::data;
using recipe::Format;
using text::Role;

namespace {

RawRow row_of(std::string_view bytes) { return {bytes, 0, 1, 1, std::nullopt, false}; }

Document document(std::string_view bytes, const RowFormat& format) {
  std::vector<RowFault> faults;
  const auto out = document_of(row_of(bytes), format, faults);
  for (const RowFault& fault : faults) FAIL_CHECK(bytes, " at ", fault.column, ": ", fault.reason);
  CHECK(out.has_value());
  return out.value_or(Document{});
}
Document document(std::string_view bytes, Format format) {
  return document(bytes, RowFormat{format, {}, false});
}

std::vector<RowFault> faults(std::string_view bytes, const RowFormat& format) {
  std::vector<RowFault> out;
  CHECK_FALSE(document_of(row_of(bytes), format, out).has_value());
  return out;
}
std::vector<std::string> reasons(std::string_view bytes, const RowFormat& format) {
  std::vector<std::string> out;
  for (const RowFault& fault : faults(bytes, format)) out.push_back(cat(fault.column, ": ", fault.reason));
  return out;
}
std::vector<std::string> reasons(std::string_view bytes, Format format) {
  return reasons(bytes, RowFormat{format, {}, false});
}

// "user: text | assistant: text", with a + or - where the row says what is trained.
std::string script(const text::Conversation& conversation) {
  std::vector<std::string> parts;
  const char* const names[] = {"system", "user", "assistant", "tool"};
  for (const text::Message& message : conversation.messages) {
    const std::string trained = message.trained ? (*message.trained ? "+" : "-") : "";
    const std::string input = message.input.empty() ? "" : cat(" (", message.input, ")");
    parts.push_back(cat(names[static_cast<int>(message.role)], trained, ": ", message.content, input));
  }
  return join(parts, " | ");
}
std::string script(std::string_view bytes, Format format) {
  return script(document(bytes, format).conversation);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("row formats: text and completion rows") {
  CHECK(document(R"({"text":"a\nb","id":3})", Format::text).text == "a\nb");
  CHECK(document(R"({"text":""})", Format::text).text.empty());
  CHECK(document(R"({"text":"a"})", Format::text).conversation.messages.empty());
  CHECK(script(R"({"prompt":"p","completion":"c"})", Format::completion) == "user: p | assistant: c");
  CHECK(script(R"({"prompt":"","completion":"c"})", Format::completion) == "assistant: c");
  CHECK(script(R"({"completion":" c"})", Format::completion) == "assistant:  c");
}

TEST_CASE("row formats: an Alpaca row's input may be absent, null or empty, all of which mean none") {
  for (const char* input : {"", R"(,"input":null)", R"(,"input":"")"})
    CHECK(script(cat(R"({"instruction":"i","output":"o")", input, "}"), Format::alpaca) ==
          "user: i | assistant: o");
  CHECK(script(R"({"instruction":"i","input":"x","output":"o"})", Format::alpaca) ==
        "user: i (x) | assistant: o");
  CHECK(script(R"({"instruction":"i","output":"o","system":"s","history":[["u","v"],["w","x"]]})",
               Format::alpaca) ==
        "system: s | user: u | assistant: v | user: w | assistant: x | user: i | assistant: o");
  CHECK(script(R"({"instruction":"i","output":"o","system":null,"history":[]})", Format::alpaca) ==
        "user: i | assistant: o");
}

TEST_CASE("row formats: turns keep their order, whichever roles follow each other") {
  CHECK(
      script(
          R"({"conversations":[{"from":"human","value":"a"},{"from":"human","value":"b"},{"from":"gpt","value":"c"}]})",
          Format::sharegpt) == "user: a | user: b | assistant: c");
  CHECK(script(R"({"conversations":[{"from":"gpt","value":"c"},{"from":"gpt","value":"d"}]})",
               Format::sharegpt) == "assistant: c | assistant: d");
  CHECK(script(R"({"system":"s","conversations":[{"from":"human","value":"a"}]})", Format::sharegpt) ==
        "system: s | user: a");
}

TEST_CASE("row formats: the synonyms of every role are one role") {
  const std::vector<std::pair<Role, Lines>> roles = {
      {Role::system, {"system", "developer", "System"}},
      {Role::user, {"user", "human", "prompter", "Human", "USER"}},
      {Role::assistant, {"assistant", "gpt", "bot", "chatgpt", "model", "function_call", "Assistant"}},
      {Role::tool, {"tool", "observation", "function", "ipython", "function_response"}},
  };
  for (const auto& [role, names] : roles)
    for (const std::string& name : names) {
      const auto one =
          document(cat(R"({"messages":[{"role":")", name, R"(","content":"x"}]})"), Format::messages);
      REQUIRE(one.conversation.messages.size() == 1);
      CHECK(one.conversation.messages[0].role == role);
    }
  const Lines said = reasons(R"({"conversations":[{"from":"robot","value":"x"}]})", Format::sharegpt);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find(
            "27: conversations[0].from is \"robot\", which is no role; roles are system (also developer), "
            "user (also human, prompter), assistant (also gpt,") == 0);
}

TEST_CASE("row formats: each of the two chat formats reads the other's names") {
  const std::string both[] = {
      R"({"messages":[{"from":"human","content":"a"},{"role":"gpt","value":"b"}]})",
      R"({"conversation":[{"role":"user","content":"a"},{"from":"gpt","value":"b"}]})",
      R"({"conversations":[{"from":"user","value":"a","role":null},{"role":"gpt","value":null,"content":"b"}]})"};
  for (const std::string& row : both)
    for (const Format format : {Format::sharegpt, Format::messages})
      CHECK(script(row, format) == "user: a | assistant: b");
  CHECK(reasons(R"({"messages":[{"from":"human","role":"user","content":"a"}]})", Format::messages) ==
        Lines{"22: has both messages[0].role and messages[0].from: keep one, or name it with fields: {role: "
              "...}"});
  CHECK(reasons(R"({"conversations":[{"from":"human","value":"a"}],"messages":[]})", Format::sharegpt)
            .at(0)
            .find(": has both conversations and messages: keep one") != std::string::npos);
}

TEST_CASE("row formats: typed parts that are text are joined, others are refused by name") {
  CHECK(
      script(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","value":"b"}]}]})",
          Format::messages) == "user: ab");
  CHECK(script(R"({"messages":[{"role":"tool","content":[]},{"role":"user","content":"a"}]})",
               Format::messages) == "tool:  | user: a");
  const Lines said = reasons(
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}},{"type":"text"},"a",{"type":"text","text":5}]}]})",
      Format::messages);
  REQUIRE(said.size() == 4);
  CHECK(said[0].find("messages[0].content[0] is of type image_url, and only text is read") !=
        std::string::npos);
  CHECK(said[1].find("messages[0].content[1].text is missing; there is type") != std::string::npos);
  CHECK(said[2].find("messages[0].content[2] must be {type: text, text: string}") != std::string::npos);
  CHECK(said[3].find("messages[0].content[3].text must be a string, is a number") != std::string::npos);
}

TEST_CASE("row formats: weights of messages are 0 and 1, under each of their names") {
  const auto with = [](const std::string& member) {
    return cat(R"({"messages":[{"role":"assistant","content":"a",)", member, "}]}");
  };
  for (const char* key : {"loss_weight", "weight", "train", "training"}) {
    for (const char* yes : {"1", "1.0", "true"})
      CHECK(script(with(cat("\"", key, "\":", yes)), Format::messages) == "assistant+: a");
    for (const char* no : {"0", "0.0", "-0.0", "false"})
      CHECK(script(with(cat("\"", key, "\":", no)), Format::messages) == "assistant-: a");
    CHECK(script(with(cat("\"", key, "\":null")), Format::messages) == "assistant: a");
    const std::string half = with(cat("\"", key, "\":0.50"));
    CHECK(reasons(half, Format::messages) ==
          Lines{cat(half.find("0.50") + 1, ": messages[0].", key,
                    " is 0.50; a message is trained (1) or not (0), weights between are not supported")});
    CHECK(reasons(with(cat("\"", key, "\":\"1\"")), Format::messages)
              .at(0)
              .find("must be 0, 1, true or false, is a string") != std::string::npos);
  }
}

TEST_CASE("row formats: calls and other members that would be lost are refused with the cure") {
  const auto first = [](const std::string& message) {
    const Lines said = reasons(cat(R"({"messages":[)", message, "]}"), Format::messages);
    CHECK(said.size() == 1);
    return said.empty() ? "" : said[0];
  };
  const char* const cure = "is not read: only text is read: write the call into the message's content";
  CHECK(first(R"({"role":"assistant","content":null,"tool_calls":[{"id":"a"}]})").find(cure) !=
        std::string::npos);
  CHECK(first(R"({"role":"assistant","content":"x","tool_calls":[{"id":"a"}]})").find(cure) !=
        std::string::npos);
  CHECK(first(R"({"role":"assistant","content":null,"function_call":{"name":"f"}})")
            .find("messages[0].function_call") != std::string::npos);
  CHECK(first(R"({"role":"assistant","content":"x","reasoning_content":"hm"})")
            .find("reasoning_content is not read") != std::string::npos);
  CHECK(
      script(
          R"({"messages":[{"role":"assistant","content":"x","tool_calls":[],"function_call":null,"images":[]}]})",
          Format::messages) == "assistant: x");
  CHECK(reasons(R"({"messages":[{"role":"user","content":"x"}],"images":["a.png"]})", Format::sharegpt)
            .at(0)
            .find("images is not read: only text is read") != std::string::npos);
}

TEST_CASE("row formats: tools are JSON, written out or in a string, or left out") {
  const auto tools = [](const std::string& value, bool ignore = false) {
    return document(cat(R"({"messages":[{"role":"user","content":"a"}],"tools":)", value, "}"),
                    RowFormat{Format::messages, {}, ignore})
        .conversation.tools;
  };
  CHECK(tools(R"([ {"name":"f", "n":1.50} ])") == R"([ {"name":"f", "n":1.50} ])");
  CHECK(tools(R"("[{\"name\": \"f\"}]")") == R"([{"name": "f"}])");
  CHECK(tools(R"({"f":{}})") == R"({"f":{}})");
  for (const char* none : {"null", "[]", "\"\"", "\"[]\"", "\" \"", "{}", "\"{}\""})
    CHECK(tools(none).empty());
  CHECK(tools("[1]", true).empty());
  const auto why = [](const std::string& value) {
    return reasons(cat(R"({"messages":[{"role":"user","content":"a"}],"tools":)", value, "}"),
                   Format::messages)
        .at(0);
  };
  CHECK(why("5").find("tools must be a list or an object of tool definitions, is a number") !=
        std::string::npos);
  CHECK(why("\"5\"").find("tools must be a list or an object") != std::string::npos);
  CHECK(why("\"[{]\"").find("tools is a string that must hold JSON: at its byte 3, is not valid JSON") !=
        std::string::npos);
}

TEST_CASE("row formats: null, a number and a list are three faults for three rows, with their lines") {
  const std::string file =
      "{\"instruction\":\"a\",\"output\":null}\n{\"instruction\":\"a\",\"output\":5}\n{\"instruction\":\"a\","
      "\"output\":[\"a\"]}\n";
  for (const std::string bom : {"", "\xEF\xBB\xBF"}) {
    RowReader reader(ByteStream(bom + file, "memory"));
    RawRow row;
    std::vector<RowFault> found;
    while (reader.next(row)) CHECK_FALSE(document_of(row, {Format::alpaca, {}, false}, found).has_value());
    CHECK(found == std::vector<RowFault>{{1, 29, "output must be a string, is null"},
                                         {2, 29, "output must be a string, is a number"},
                                         {3, 29, "output must be a string, is a list"}});
  }
}

TEST_CASE("row formats: two objects on line 3 of 4 are one fault, and the other three rows are read") {
  const std::string good = R"({"instruction":"a","output":"b"})";
  const std::string file = good + "\n" + good + "\n{\"instruction\":\"a\"}{\"x\":1}\n" + good + "\n";
  for (const std::string& bytes : {file, test::gzip(file)}) {
    RowReader reader(ByteStream(bytes, "memory"));
    RawRow row;
    std::vector<RowFault> found;
    int read = 0;
    while (reader.next(row)) read += document_of(row, {Format::alpaca, {}, false}, found).has_value();
    CHECK(read == 3);
    CHECK(found == std::vector<RowFault>{{3, 20, "a second value stands behind the first: {\"x\":1}"}});
  }
}

TEST_CASE("row formats: rows with and without a byte-order mark are the same rows") {
  const std::string file =
      "{\"instruction\":\"a\",\"output\":\"b\"}\n{\"instruction\":\"c\",\"input\":\"d\",\"output\":\"e\"}";
  Lines seen[2];
  for (const bool bom : {false, true}) {
    RowReader reader(ByteStream((bom ? "\xEF\xBB\xBF" : "") + file, "memory"));
    RawRow row;
    std::vector<RowFault> found;
    while (reader.next(row))
      seen[bom].push_back(cat(row.number, row.line, row.column,
                              script(document_of(row, {Format::alpaca, {}, false}, found)->conversation)));
    CHECK(reader.had_bom() == bom);
  }
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0].size() == 2);
}

TEST_CASE("row formats: all faults of a row come at once, at their places") {
  const std::string row =
      "{\"instruction\": 5,\n \"input\": [],\n\"output\": \"\",\n  \"system\": {},\"history\": [[\"u\"], 3]}";
  std::vector<RowFault> found;
  document_of({row, 0, 10, 5, std::nullopt, false}, {Format::alpaca, {}, false}, found);
  CHECK(found == std::vector<RowFault>{
                     {10, 21, "instruction must be a string, is a number"},
                     {11, 11, "input must be a string, is a list"},
                     {12, 11, "output must not be empty"},
                     {13, 13, "system must be a string, is an object"},
                     {13, 28,
                      "history[0] must be a list of two strings that are not empty, the user's and the "
                      "assistant's"},
                     {13, 35,
                      "history[1] must be a list of two strings that are not empty, the user's and the "
                      "assistant's"},
                 });
}

TEST_CASE("row formats: a row with very many faults lists some and counts the rest") {
  std::string row = R"({"messages":[)";
  for (int i = 0; i < 1000; ++i) row += "5,";
  const Lines said = reasons(row + "5]}", Format::messages);
  CHECK(said.size() == kMaxFaults + 1);
  CHECK(said.front() == "14: messages[0] must be an object, is a number");
  CHECK(said.back().find("and 985 more faults in this row") != std::string::npos);
}

TEST_CASE("row formats: a field that is absent is named, with what is there instead") {
  CHECK(
      reasons(R"({"question":"a","answer":"b"})", Format::completion) ==
      Lines{"1: completion is missing; there is question, answer. Another name? fields: {completion: NAME}"});
  CHECK(reasons(R"({})", Format::text) == Lines{"1: text is missing; there is nothing"});
  CHECK(reasons(R"({"messages":[]})", Format::messages) == Lines{"13: messages must not be empty"});
  CHECK(reasons(R"({"messages":null})", Format::messages) ==
        Lines{"13: messages must be a list of messages, is null"});
  CHECK(reasons(R"({"messages":"a"})", Format::messages) ==
        Lines{"13: messages must be a list of messages, is a string"});
  CHECK(reasons(R"({"messages":[{"role":"system","content":""}]})", Format::messages) ==
        Lines{"13: messages holds no message"});
  for (const char* row : {"5", "\"text\"", "[\"text\"]", "null", "true"})
    CHECK(reasons(row, Format::text).at(0).find("1: a row must be an object, is ") == 0);
}

TEST_CASE("row formats: a row of another format is told apart") {
  const std::pair<Format, const char*> rows[] = {
      {Format::alpaca, R"({"instruction":"a","input":"","output":"b"})"},
      {Format::sharegpt, R"({"conversations":[{"from":"human","value":"a"}]})"},
      {Format::completion, R"({"prompt":"a","completion":"b"})"},
      {Format::text, R"({"text":"a"})"},
  };
  const char* const names[] = {"text", "completion", "alpaca", "sharegpt", "messages"};
  for (const auto& [its, row] : rows)
    for (const auto& [read_as, other] : rows)
      if (its != read_as)
        CHECK(reasons(row, read_as).at(0).find(cat(". Is its format ", names[static_cast<int>(its)], "?")) !=
              std::string::npos);
}

TEST_CASE("row formats: fields give every field the name it has in the file") {
  const RowFormat questions{Format::completion, {{"prompt", "question"}, {"completion", "answer"}}, false};
  CHECK(script(document(R"({"question":"q","answer":"a","prompt":5})", questions).conversation) ==
        "user: q | assistant: a");
  CHECK(
      reasons(R"({"question":"q","completion":"a"})", questions) ==
      Lines{"1: answer is missing; there is question, completion. Another name? fields: {completion: NAME}"});
  const RowFormat chat{
      Format::sharegpt,
      {{"conversations", "dialog"}, {"from", "speaker"}, {"value", "says"}, {"loss_weight", "w"}},
      false};
  CHECK(
      script(document(R"({"dialog":[{"speaker":"user","says":"a","from":1,"weight":2,"w":1}],"messages":[]})",
                      chat)
                 .conversation) == "user+: a");
}

TEST_CASE("row formats: what absent, null and empty mean is as the table says, for every field") {
  // A whole row of each format, from which one field at a time is taken, made null or emptied.
  const std::vector<std::pair<Format, std::vector<std::pair<std::string, std::string>>>> wholes = {
      {Format::text, {{"text", "\"a\""}}},
      {Format::completion, {{"prompt", "\"a\""}, {"completion", "\"b\""}}},
      {Format::alpaca,
       {{"instruction", "\"a\""},
        {"input", "\"b\""},
        {"output", "\"c\""},
        {"system", "\"d\""},
        {"history", "[]"}}},
      {Format::sharegpt,
       {{"conversations", R"([{"from":"user","value":"a"}])"}, {"system", "\"d\""}, {"tools", "[1]"}}},
      {Format::messages,
       {{"messages", R"([{"role":"user","content":"a"}])"}, {"system", "\"d\""}, {"tools", "[1]"}}},
  };
  int checked = 0;
  for (const auto& [format, members] : wholes)
    for (const auto& [name, whole] : members) {
      const Field& field = field_of(format, name);
      const auto is_fault = [&](const char* replacement) {
        Lines parts;
        for (const auto& [key, value] : members) {
          if (key == name && replacement == nullptr) continue;
          parts.push_back(cat("\"", key, "\":", key == name ? replacement : value));
        }
        std::vector<RowFault> found;
        document_of(row_of(cat("{", join(parts, ","), "}")), {format, {}, false}, found);
        return !found.empty();
      };
      INFO("field ", name);
      CHECK(is_fault(nullptr) == (field.absent == Meaning::fault));
      CHECK(is_fault("null") == (field.null == Meaning::fault));
      CHECK(is_fault(whole[0] == '[' ? "[]" : "\"\"") == (field.empty == Meaning::fault));
      ++checked;
    }
  CHECK(checked == 14);
  // Those of messages.
  const auto message_is_fault = [](const std::string& message) {
    std::vector<RowFault> found;
    document_of(row_of(cat(R"({"messages":[{"role":"user","content":"a"},)", message, "]}")),
                {Format::messages, {}, false}, found);
    return !found.empty();
  };
  for (const char* message :
       {R"({"content":"a"})", R"({"role":null,"content":"a"})", R"({"role":"","content":"a"})",
        R"({"role":"user"})", R"({"role":"user","content":null})", R"({"role":"user","content":""})",
        R"({"role":"assistant","content":""})", R"({"role":"assistant","content":[]})",
        R"({"role":"tool","content":null})"})
    CHECK_MESSAGE(message_is_fault(message), message);
  for (const char* message : {R"({"role":"tool","content":""})", R"({"role":"system","content":""})",
                              R"({"role":"user","content":" ","loss_weight":null})"})
    CHECK_FALSE_MESSAGE(message_is_fault(message), message);
}

TEST_CASE("row formats: the manual's examples are rows of their formats") {
  std::string page = test::read_file(test::source_dir() / "docs/formats/rows.md");
  page = page.substr(page.find("## Examples"));
  const std::size_t begin = page.find("```json\n") + 8;
  const Lines rows = split(trim(page.substr(begin, page.find("```", begin) - begin)), '\n');
  const Format formats[] = {Format::text,     Format::completion, Format::alpaca,
                            Format::sharegpt, Format::messages,   Format::messages};
  REQUIRE(rows.size() == std::size(formats));
  for (std::size_t i = 0; i < rows.size(); ++i) document(rows[i], formats[i]);
}

TEST_CASE("row formats: the manual has the tables as they are") {
  const std::string page = test::read_file(test::source_dir() / "docs/formats/rows.md");
  CHECK_MESSAGE(page.find(field_table()) != std::string::npos, "docs/formats/rows.md must hold:\n",
                field_table());
  CHECK_MESSAGE(page.find(role_table()) != std::string::npos, "docs/formats/rows.md must hold:\n",
                role_table());
}
