#include "base/plain_text.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace zt {

TEST_CASE("plain text: UTF-8 stays, what a terminal would obey or can't show becomes a question mark") {
  struct Case {
    std::string text, plain;
  };
  const Case cases[] = {
      {"", ""},
      {"two\nlines\tand a tab", "two\nlines\tand a tab"},
      {"Gr\xC3\xB6\xC3\x9F"
       "e \xE2\x82\xAC \xF0\x9F\x99\x82",
       "Gr\xC3\xB6\xC3\x9F"
       "e \xE2\x82\xAC \xF0\x9F\x99\x82"},
      {"\x1b[31mred\x1b[0m\a\r\b\x7f", "?[31mred?[0m????"},
      {std::string("a\0b", 3), "a?b"},
      {"\xC2\x9B"
       "31m",
       "?31m"},                                                        // U+009B, the other way to write ESC [
      {"\xC2\xA0", "\xC2\xA0"},                                        // U+00A0 is the first that is none
      {"cut \xE2\x82", "cut ??"},                                      // the start of a character
      {"\x80\xFF\xC0\xAF", "????"},                                    // no starts; an overlong slash
      {"\xED\xA0\x80", "???"},                                         // a surrogate
      {"\xF4\x8F\xBF\xBF \xF4\x90\x80\x80", "\xF4\x8F\xBF\xBF ????"},  // the last character, and beyond
      {"\xE2\x82\xE2\x82\xAC", "??\xE2\x82\xAC"},
  };
  for (const Case& c : cases) CHECK(plain_text(c.text) == c.plain);
}

TEST_CASE("error: its texts can be shown, whatever file they are from") {
  const Error e(Blame::model, "token '\x1b[2J\xff' is twice", "remove '\x07'");
  CHECK(e.problem() == "token '?[2J?' is twice");
  CHECK(e.hint() == "remove '?'");
  CHECK(std::string(e.what()) == "token '?[2J?' is twice\n  hint: remove '?'");
}

}  // namespace zt
