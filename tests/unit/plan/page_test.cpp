#include "plan/page.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "plan/gantt.h"
#include "plan/memory_picture.h"
#include "support/steps.h"
#include "support/xml.h"

namespace zt::plan {
namespace {

const std::string kHostile = "<script>alert('x')</script> \"&' --> <img src=x onerror=alert(1)>";

// Everywhere the hostile text.
PlanPage hostile_page() {
  PlanPage page;
  page.title = page.subtitle = page.verdict = page.footer = kHostile;
  page.facts = {{kHostile, kHostile}};
  PageTable table{kHostile, {kHostile, kHostile}, {{kHostile, kHostile}}, false, kHostile};
  page.sections = {{kHostile, {kHostile}, {table}, "", kHostile}};
  return page;
}

// The page's void elements closed and its style's quotes kept, so that it can be read as XML.
std::vector<test::XmlElement> parsed(std::string html) {
  const std::string doctype = "<!DOCTYPE html>\n";
  REQUIRE(html.starts_with(doctype));
  html.erase(0, doctype.size());
  for (std::size_t at = 0; (at = html.find("<meta ", at)) != std::string::npos; ++at)
    html.insert(html.find('>', at), "/");
  return test::parse_xml(html);
}

TEST_CASE("page: texts are texts, whatever they say") {
  const std::string html = plan_page(hostile_page());
  const auto document = parsed(html);
  CHECK(test::elements(document, "script").empty());
  CHECK(test::elements(document, "img").empty());
  int said = 0;
  for (const auto& e : document) said += e.text.find(kHostile) != std::string::npos;
  // title, h1, subtitle, verdict, dt, dd, h2, p, h3, 2 th, 2 td, note, footer; the caption only stands below a picture.
  CHECK(said == 15);
}

TEST_CASE("page: nothing in it comes from elsewhere or runs") {
  const schedule::Schedule list = test::small_step(30, 4, 4);
  const Simulation time = test::played(list);
  PlanPage page = hostile_page();
  page.sections.push_back(
      {"Memory", {}, {}, memory_svg(stack_of(memory_timeline(list), 9), list), "caption"});
  page.sections.push_back({"Time", {}, {}, gantt_svg(list, time), ""});
  const auto document = parsed(plan_page(page));
  CHECK(test::elements(document, "svg").size() == 3);  // two pictures, one with its areas inside
  CHECK(test::elements(document, "figcaption").size() == 1);
  for (const auto& e : document) {
    for (const char* tag : {"script", "link", "img", "iframe", "object", "a", "use", "image", "base", "form"})
      CHECK(e.tag != tag);
    for (const auto& [key, value] : e.attributes) {
      CHECK_FALSE(key.starts_with("on"));
      CHECK(key != "href");
      CHECK(key != "src");
      if (key != "xmlns") CHECK(value.find("//") == std::string::npos);
    }
    CHECK(e.text.find("@import") == std::string::npos);
    if (e.tag == "style") CHECK(e.text.find("http") == std::string::npos);
  }
}

TEST_CASE("page: columns of numbers are flush right, names are not, and short rows are filled up") {
  PlanPage page;
  page.sections = {{"",
                    {},
                    {{"",
                      {"what", "bytes", "words"},
                      {{"weights", "1.50 GiB", "8 times b"}, {"all", "2 B"}, {"other", "-", "x"}},
                      true,
                      ""}},
                    "",
                    ""}};
  page.sections[0].tables[0].rows[2][1] = "~3 B";
  const auto document = parsed(plan_page(page));
  CHECK(test::elements(document, "td").size() == 9);
  CHECK(test::elements(document, "td", "number").size() == 3);
  CHECK(test::elements(document, "th", "number").size() == 1);
  CHECK(test::elements(document, "tr", "total").size() == 1);
}

TEST_CASE("page: an empty plan is a page, and the verdict's mark follows it") {
  CHECK(test::elements(parsed(plan_page({})), "h1").empty());
  PlanPage page;
  page.verdict = "does not fit";
  page.good = false;
  const auto verdict = test::elements(parsed(plan_page(page)), "p", "verdict");
  REQUIRE(verdict.size() == 1);
  CHECK(verdict[0].at("class") == "verdict bad");
  CHECK(verdict[0].text == "✗ does not fit");
}

}  // namespace
}  // namespace zt::plan
