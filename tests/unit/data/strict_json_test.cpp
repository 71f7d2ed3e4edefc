#include "data/strict_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/text.h"

using namespace zt;
using namespace zt::data;

namespace {

std::string repeated(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

JsonFault fault_of(std::string_view text) {
  JsonValue value;
  JsonFault fault;
  CHECK_FALSE(parse_strict_json(text, &value, &fault));
  return fault;
}

nlohmann::json as_library(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null: return nullptr;
    case JsonValue::Kind::boolean: return value.flag;
    case JsonValue::Kind::number: return value.number;
    case JsonValue::Kind::string: return value.text;
    case JsonValue::Kind::array: {
      nlohmann::json out = nlohmann::json::array();
      for (const JsonValue& item : value.items) out.push_back(as_library(item));
      return out;
    }
    case JsonValue::Kind::object: break;
  }
  nlohmann::json out = nlohmann::json::object();
  for (std::size_t i = 0; i < value.keys.size(); ++i) out[value.keys[i]] = as_library(value.items[i]);
  return out;
}

}  // namespace

TEST_CASE("strict json: every fault has its place and its reason") {
  using namespace std::string_view_literals;
  struct Case {
    std::string_view text;
    std::size_t offset;
    const char* reason;
  };
  const std::string deep = repeated("[", 65) + repeated("]", 65);
  const std::string many = "[" + repeated("0,", kMaxValues) + "0]";
  const std::string keys = "{" + repeated("\"x\":0,", 1) + [] {
    std::string out;
    for (int i = 0; i < 40; ++i) out += cat("\"k", i, "\":0,");
    return out;
  }() + "\"k7\":1}";
  const Case cases[] = {
      {R"({"a":1}{"x":1})", 7, "a second value stands behind the first: {\"x\":1}"},
      {R"({"a":1} ])", 8, "a second value stands behind the first: ]"},
      {R"({"a":1},)", 7, "a second value"},
      {R"({"a":NaN})", 5, "invalid literal, at NaN}"},
      {R"({"a":Infinity})", 5, "invalid literal, at Infinity}"},
      {R"({"a":-Infinity})", 6, "is not valid JSON"},
      {R"({"a":1e999})", 5, "the number 1e999 is out of range"},
      {R"({"a":-1e999,"b":0})", 5, "the number -1e999 is out of range"},
      {R"({"a":01})", 6, "is not valid JSON"},
      {R"({"a":+1})", 5, "is not valid JSON"},
      {R"({"a":.5})", 5, "is not valid JSON"},
      {R"({"a":0x10})", 6, "is not valid JSON"},
      {R"({'a':1})", 1, "is not valid JSON"},
      {R"({a:1})", 1, "is not valid JSON"},
      {R"({"a":1,})", 7, "is not valid JSON"},
      {R"({"a":1,,"b":2})", 7, "is not valid JSON"},
      {R"({"a" 1})", 5, "is not valid JSON"},
      {R"({"a":"x" "b":"long text"})", 9, "is not valid JSON"},
      {R"({"a":[1,2})", 9, "is not valid JSON"},
      {R"({"a":True})", 5, "invalid literal, at True}"},
      {R"({"a":1} // note)", 8, "a second value"},
      {R"({"a":1)", 6, "the row ends too early"},
      {R"({"a":"x)", 7, "the row ends too early"},
      {R"({"a":)", 5, "the row ends too early"},
      {"", 0, "the row ends too early"},
      {"  ", 2, "the row ends too early"},
      {"{\"a\":\"x\ty\"}", 7, "control character"},
      {"{\"a\":\"x\ny\"}", 7, "control character"},
      {R"({"a":"\x41"})", 7, "is not valid JSON"},
      {R"({"a":"\ud800"})", 12, "surrogate"},
      {R"({"a":"\ud800\u0041"})", 17, "surrogate"},
      {R"({"a":"\udc00"})", 11, "surrogate"},
      {"{\"a\":\"x\xFF\"}", 7, "ill-formed UTF-8"},
      {"{\"a\":\"\xC0\xAF\"}", 6, "ill-formed UTF-8"},      // overlong
      {"{\"a\":\"\xED\xA0\x80\"}", 7, "ill-formed UTF-8"},  // a surrogate, as bytes
      {"{\"a\":\"\xF4\x90\x80\x80\"}", 7, "ill-formed UTF-8"},
      {"{\"a\":\"\xE2\x82\"}", 8, "ill-formed UTF-8"},
      {"{\"\xFF\":1}", 2, "ill-formed UTF-8"},
      {"{\"a\":1}\0"sv, 7, "NUL byte"},
      {"{\"a\":\"\0\"}"sv, 6, "NUL byte"},
      {"\xEF\xBB\xBF{}", 0, "byte-order mark"},
      {R"({"a":1, "a" : 2})", 8, "the key a stands twice"},
      {R"({"a":{"b":0,"c":{},"b":1}})", 19, "the key b stands twice"},
      {R"({"a":1,"\u0061":2})", 7, "the key a stands twice"},
      {keys, keys.size() - 7, "the key k7 stands twice"},
      {deep, 64, "nests deeper than 64 levels"},
      {many, 2 * std::size_t(kMaxValues) - 1, "holds more than 524,288 values"},
  };
  for (const Case& c : cases) {
    INFO("text: ", c.text.substr(0, 60));
    const JsonFault fault = fault_of(c.text);
    CHECK(fault.offset == c.offset);
    INFO("reason: ", fault.reason);
    CHECK(fault.reason.find(c.reason) != std::string::npos);
    CHECK(fault.reason.size() < 200);
  }
}

TEST_CASE("strict json: values are read with their places") {
  const std::string text =
      " {\"a\" : [1, -2.5e1 ,true,null] ,\"b\":{\"\\\"\":\"\\u20ac\\ud83d\\ude00\\n\"}}\t";
  JsonValue value;
  JsonFault fault;
  REQUIRE(parse_strict_json(text, &value, &fault));
  const auto source = [&](const JsonValue& part) { return text.substr(part.begin, part.end - part.begin); };
  CHECK(source(value) == trim(text));
  REQUIRE(value.find("a") != nullptr);
  const JsonValue& list = *value.find("a");
  CHECK(source(list) == "[1, -2.5e1 ,true,null]");
  CHECK(source(list.items[0]) == "1");
  CHECK(source(list.items[1]) == "-2.5e1");
  CHECK(list.items[1].number == -25.0);
  CHECK(source(list.items[2]) == "true");
  CHECK(source(list.items[3]) == "null");
  CHECK(source(*value.find("b")) == "{\"\\\"\":\"\\u20ac\\ud83d\\ude00\\n\"}");
  const JsonValue* const euro = value.find("b")->find("\"");
  REQUIRE(euro != nullptr);
  CHECK(euro->text == "\u20ac\U0001F600\n");
  CHECK(value.find("c") == nullptr);
}

TEST_CASE("strict json: 64 levels and any scalar are read") {
  JsonValue value;
  JsonFault fault;
  CHECK(parse_strict_json(repeated("[", 64) + repeated("]", 64), &value, &fault));
  for (const char* text : {"0", "-0", "1e308", "\"\"", "true", "null", "18446744073709551616", "1e-999"})
    CHECK(parse_strict_json(text, &value, &fault));
  // A low surrogate behind its high one, and what looks like one but is a plain character.
  CHECK(parse_strict_json(R"("\ud834\udd1e\ue000\u0000")", &value, &fault));
  CHECK(value.text == std::string("\U0001D11E\uE000\0", 8));
}

TEST_CASE("strict json: accepts what the library accepts, and refuses only what it names") {
  std::mt19937 random(11);
  const std::string seed =
      R"({"a":[1,2.5,{"b":"x\n\u20ac"}],"c":{"d":null,"e":[true,false,[]]},"f":"\ud83d\ude00é"})";
  const std::string favourites = "{}[]\",:\\ \n0123456789.eE+-truefalsnu\xC3\xA9\xED\xA0\x80";
  int accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string text = seed;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      const std::size_t at = random() % text.size();
      const char byte = favourites[random() % favourites.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 5);
      else if (random() % 2 == 0)
        text.insert(at, 1, byte);
      else
        text[at] = byte;
    }
    JsonValue value;
    JsonFault fault;
    const bool ours = parse_strict_json(text, &value, &fault);
    INFO("text: ", text, " fault: ", fault.reason);
    CHECK(ours <= nlohmann::json::accept(text));
    if (!ours && nlohmann::json::accept(text)) CHECK(fault.reason.find("stands twice") != std::string::npos);
    if (ours) CHECK(as_library(value) == nlohmann::json::parse(text));
    accepted += ours;
    CHECK(fault.offset <= text.size());
  }
  CHECK(accepted > 1000);
}

TEST_CASE("strict json: what is shown of people's data is short and cannot move a cursor") {
  CHECK(shown("plain é 字") == "plain é 字");
  CHECK(shown("a\nb\tc\r\x1b[2J\x7f") == "a\\nb\\tc\\r\\u001b[2J\\u007f");
  CHECK(shown("\xC2\x9B"
              "x") == "\\u009bx");
  CHECK(shown("a\xFF\xE2\x82") == "a\\xff\\xe2\\x82");
  CHECK(shown(std::string(100, 'x'), 10) == "xxxxxxxxxx...");
  CHECK(shown("éééé", 3) == "éé...");
}
