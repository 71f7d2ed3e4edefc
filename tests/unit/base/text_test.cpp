#include "base/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace zt {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("cat: joins whatever fmt prints") {
  CHECK(cat() == "");
  CHECK(cat("rank ", 3, " of ", std::string("8"), ", ", 0.5, ' ', true) == "rank 3 of 8, 0.5 true");
}

TEST_CASE("split: keeps empty parts, and join undoes it") {
  for (const std::string text : {"", "a", ",", "a,b", ",a,", "a,,b"}) {
    CAPTURE(text);
    CHECK(join(split(text, ','), ",") == text);
  }
  CHECK(split("", ',') == Words{""});
  CHECK(split(",a,", ',') == Words{"", "a", ""});
  CHECK(join({}, ", ") == "");
  CHECK(join({"", ""}, "-") == "-");
}

TEST_CASE("trim: takes blanks and line ends off both sides only") {
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \r\n\t") == "");
  CHECK(trim("") == "");
}

TEST_CASE("starts_with: compares the beginning, also of shorter texts") {
  CHECK(starts_with("model.x", "model."));
  CHECK(starts_with("a", ""));
  CHECK_FALSE(starts_with("mod", "model"));
}

TEST_CASE("edit distance: is Levenshtein's, a metric, on the textbook's pairs") {
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("", "abc") == 3);
  const Words words = {"", "a", "lr", "lrs", "prefetch", "prefech", "perfetch"};
  for (const std::string& a : words) {
    for (const std::string& b : words) {
      CHECK(edit_distance(a, b) == edit_distance(b, a));
      CHECK((edit_distance(a, b) == 0) == (a == b));
      for (const std::string& c : words)
        CHECK(edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c));
    }
  }
}

TEST_CASE("nearest: finds the word meant by a typing error, and nothing for another word") {
  const Words keys = {"learning_rate", "weight_decay", "warmup_steps", "seed", "steps"};
  CHECK(nearest("learning_rat", keys) == "learning_rate");
  CHECK(nearest("weight-decay", keys) == "weight_decay");
  CHECK(nearest("sede", keys) == "seed");
  CHECK(nearest("stpes", keys) == "steps");
  CHECK(nearest("optimizer", keys) == "");
  CHECK(nearest("seed", {}) == "");
  CHECK(nearest("seed", keys) == "seed");
}

TEST_CASE("nearest: the nearer candidate wins, the first of equals") {
  CHECK(nearest("step", {"stop", "steps"}) == "stop");
  CHECK(nearest("steps", {"stops", "step"}) == "stops");
  CHECK(nearest("stepx", {"sleepx", "steps"}) == "steps");
}

TEST_CASE("nearest: a candidate that shares no letter with the word is no typing error") {
  CHECK(nearest("x", {"y"}) == "");
  CHECK(nearest("ab", {"cd"}) == "");
  CHECK(nearest("", {"a"}) == "");
}

TEST_CASE("parse_int: takes whole decimal integers of 64 bits and nothing else") {
  const auto parsed = [](std::string_view text) {
    std::int64_t value = -77;
    REQUIRE(parse_int(text, &value));
    return value;
  };
  CHECK(parsed("0") == 0);
  CHECK(parsed("-12") == -12);
  CHECK(parsed("+12") == 12);
  CHECK(parsed("007") == 7);
  CHECK(parsed("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(parsed("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  std::int64_t value = 0;
  for (const char* bad : {"", "+", "-", "+-5", "++5", " 1", "1 ", "1.0", "1e3", "0x10", "1,000", "one",
                          "9223372036854775808", "-9223372036854775809", "99999999999999999999999"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(parse_int(bad, &value));
  }
}

TEST_CASE("parse_double: takes whole decimal numbers, in the nearest value") {
  const auto parsed = [](std::string_view text) {
    double value = -77;
    REQUIRE(parse_double(text, &value));
    return value;
  };
  CHECK(parsed("0.1") == 0.1);
  CHECK(parsed("+3e-4") == 3e-4);
  CHECK(parsed("-2") == -2);
  CHECK(parsed("1E5") == 1e5);
  CHECK(parsed(".5") == 0.5);
  CHECK(parsed("1.7976931348623157e308") == std::numeric_limits<double>::max());
  double value = 0;
  for (const char* bad :
       {"",      "+",     "-",   "+-5", "++5", ".",    "e5",  "1e",       "1 ",    " 1",
        "1.0.0", "0x1p3", "1,5", "1f",  "inf", "-inf", "nan", "infinity", "1e999", "-1e999"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(parse_double(bad, &value));
  }
}

TEST_CASE("with_commas: groups digits by three, with signs and extremes") {
  const std::pair<std::int64_t, const char*> cases[] = {
      {0, "0"},
      {999, "999"},
      {1000, "1,000"},
      {-999, "-999"},
      {-1000, "-1,000"},
      {123456, "123,456"},
      {1234567, "1,234,567"},
      {std::numeric_limits<std::int64_t>::max(), "9,223,372,036,854,775,807"},
      {std::numeric_limits<std::int64_t>::min(), "-9,223,372,036,854,775,808"}};
  for (const auto& [value, text] : cases) CHECK(with_commas(value) == text);
}

TEST_CASE("human_bytes: binary units, two decimals, and never 1024 of a unit that has a larger one") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(12) == "12 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(1610612736) == "1.50 GiB");
  CHECK(human_bytes((std::int64_t{1} << 20) - 1) == "1.00 MiB");
  CHECK(human_bytes((std::int64_t{1} << 30) - 1) == "1.00 GiB");
  CHECK(human_bytes(std::int64_t{1} << 40) == "1.00 TiB");
  CHECK(human_bytes(std::int64_t{1} << 52) == "4096.00 TiB");
  CHECK(human_bytes(-2048) == "-2.00 KiB");
}

TEST_CASE("human_seconds: carries into minutes and hours instead of printing 60 of them") {
  CHECK(human_seconds(0) == "0.0 s");
  CHECK(human_seconds(12.34) == "12.3 s");
  CHECK(human_seconds(59.94) == "59.9 s");
  CHECK(human_seconds(59.96) == "1m 00s");
  CHECK(human_seconds(60) == "1m 00s");
  CHECK(human_seconds(3599.4) == "59m 59s");
  CHECK(human_seconds(3599.6) == "1h 00m 00s");
  CHECK(human_seconds(7384) == "2h 03m 04s");
  CHECK(human_seconds(360000) == "100h 00m 00s");
}

TEST_CASE("human_seconds: a time nobody knows is said to be unknown") {
  CHECK(human_seconds(INFINITY) == "unknown");
  CHECK(human_seconds(NAN) == "unknown");
}

}  // namespace
}  // namespace zt
