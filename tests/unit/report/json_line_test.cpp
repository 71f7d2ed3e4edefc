#include "report/json_line.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "train/metrics.h"

namespace zt::report {
namespace {

using Values = std::map<std::string, double>;

bool read(std::string_view line, Values* values) {
  values->clear();
  return each_number(line, [&](std::string_view key, double value) { (*values)[std::string(key)] = value; });
}

TEST_CASE("metrics line: what a run writes is read as the JSON library reads it") {
  train::StepMetrics m;
  m.step = 123456, m.loss = 2.345e-3, m.grad_norm = INFINITY, m.learning_rate = 1e-300, m.skipped = true;
  m.batch_hash = "a \"quoted\" \\ text with , { } [ ]";
  m.peak_bytes = std::int64_t{1} << 52;
  const std::string line = train::json_line(m);
  Values values;
  REQUIRE(read(line, &values));
  const auto json = nlohmann::json::parse(line);
  std::size_t numbers = 0;
  for (const auto& [key, value] : json.items()) {
    CAPTURE(key);
    if (value.is_string() || value.is_structured()) {
      CHECK_FALSE(values.contains(key));
      continue;
    }
    ++numbers;
    REQUIRE(values.contains(key));
    if (value.is_null())
      CHECK(std::isnan(values[key]));
    else if (value.is_boolean())
      CHECK(values[key] == (value.get<bool>() ? 1 : 0));
    else
      CHECK(values[key] == value.get<double>());
  }
  CHECK(values.size() == numbers);
}

TEST_CASE("metrics line: half of one, or another text, is none") {
  const std::string line =
      R"({"step":1,"loss":2.5,"traffic":{"a":[1,{"b":"}"}]},"skipped":false,"x":null,"h":"\"}"})";
  Values values;
  REQUIRE(read(line, &values));
  CHECK(values.size() == 4);
  for (std::size_t length = 0; length < line.size(); ++length)
    CHECK_FALSE(read(line.substr(0, length), &values));
  for (const char* text : {"", "1", "[]", "{]", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":1}}",
                           "{\"a\":1} x", "{\"a\":nil}", "{\"a\":--1}", "{\"a\":1 \"b\":2}"})
    CHECK_MESSAGE(!read(text, &values), text);
  for (const char* text : {"{}", " { } ", "{\"a\" : 1 , \"b\" : [ ] }\r"})
    CHECK_MESSAGE(read(text, &values), text);
  REQUIRE(read("{\"a\":1e999}", &values));
  CHECK_FALSE(std::isfinite(values["a"]));
}

}  // namespace
}  // namespace zt::report
