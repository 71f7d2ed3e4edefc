// A plan's page as a browser shows it: Chromium, where there is one, at two widths, light and dark.
#include "plan/page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "e2e/browser.h"
#include "plan/drawing.h"
#include "plan/exposed_waits.h"
#include "plan/gantt.h"
#include "plan/memory_picture.h"
#include "support/steps.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;

const std::string kTitle = "a<b>\"'&.yaml <script>document.title='broken'</script>";

std::string page(int layers, int micros) {
  const schedule::Schedule list = small_step(layers, micros, 4);
  const plan::Simulation time = played(list, 1.1);
  plan::MemoryPicture memory;
  memory.time = &time;
  const plan::MemoryStack stack = plan::stack_of(plan::memory_timeline(list), 1 << 20);
  memory.device_bytes = 2 * stack.total(std::size_t(plan::peak_op(stack)));
  plan::PlanPage page;
  page.title = kTitle;
  page.verdict = "fits";
  page.facts = {{"Step", plan::time_text(time.seconds)}, {"Exposed", plan::time_text(time.exposed)}};
  page.sections = {{"Memory", {"Per rank."}, {}, plan::memory_svg(stack, list, memory), "Stacked."},
                   {"Time", {}, {}, plan::gantt_svg(list, time), ""},
                   {"Waits", {}, {plan::exposed_waits_table(list, time)}, "", ""}};
  return plan_page(page);
}

// For seen_by_browser.
constexpr const char* kMeasure = R"(
  const box = e => e.getBoundingClientRect(), seen = e => box(e).width > 0 && box(e).height > 0;
  const words = [...page.querySelectorAll('svg text')].filter(seen).map(e => ({
    text: e.textContent, svg: e.closest('svg[id]'), size: parseFloat(view.getComputedStyle(e).fontSize), box: box(e)}));
  const inside = w => w.box.left >= box(w.svg).left - 1 && w.box.right <= box(w.svg).right + 1;
  const meet = (a, b) => a.svg == b.svg && a.box.left < b.box.right - 1 && b.box.left < a.box.right - 1 &&
    a.box.top < b.box.bottom - 3 && b.box.top < a.box.bottom - 3;
  const overlaps = words.flatMap((a, i) => words.slice(0, i).filter(b => meet(a, b)).map(b => a.text + ' | ' + b.text));
  const color = (e, key) => view.getComputedStyle(e)[key].match(/\d+/g).slice(0, 3).map(Number);
  return {
    title: page.title, heading: page.querySelector('h1').textContent, scripts: page.querySelectorAll('script').length,
    width: view.innerWidth, scroll: page.documentElement.scrollWidth,
    ground: color(page.body, 'backgroundColor'), ink: color(page.querySelector('h1'), 'color'),
    picture_ground: color(page.querySelector('svg .bg'), 'fill'), picture_ink: color(page.querySelector('svg text'), 'fill'),
    areas: [...page.querySelectorAll('#memory path')].filter(seen).length,
    bars: [...page.querySelectorAll('#gantt .row rect')].filter(seen).length,
    hatched: [...page.querySelectorAll('#gantt .wait')].filter(e => view.getComputedStyle(e).fill.includes('gantt-hatch')).length,
    kinds: new Set([...page.querySelectorAll('#gantt .compute rect')].map(e => view.getComputedStyle(e).fill)).size,
    svg_widths: [...page.querySelectorAll('svg[id]')].map(e => box(e).width),
    smallest: Math.min(...words.map(w => w.size)), outside: words.filter(w => !inside(w)).map(w => w.text), overlaps};
)";

double contrast(const nlohmann::json& a, const nlohmann::json& b) {
  const auto rgb = [](const nlohmann::json& c) {
    return plan::Rgb(c[0].get<unsigned>() << 16 | c[1].get<unsigned>() << 8 | c[2].get<unsigned>());
  };
  return plan::contrast(rgb(a), rgb(b));
}

TEST_CASE("page: a browser shows all of it at any width, light and dark, and no words overlap") {
  if (browser().empty()) {
    MESSAGE("skipped: no chromium, chromium-browser or google-chrome in PATH");
    return;
  }
  const Desk desk;
  for (const auto& [layers, micros] : {std::pair{2, 1}, {32, 4}}) {
    const std::string html = page(layers, micros);
    for (const int width : {360, 1400}) {
      for (const bool dark : {false, true}) {
        CAPTURE(layers);
        CAPTURE(width);
        CAPTURE(dark);
        const nlohmann::json seen = seen_by_browser(desk, html, width, dark, kMeasure);
        CAPTURE(seen.dump());
        CHECK(seen["title"] == kTitle);
        CHECK(seen["heading"] == kTitle);
        CHECK(seen["scripts"] == 0);
        CHECK(seen["width"] == width);
        CHECK(seen["scroll"] <= width);
        CHECK((seen["ground"][0] < 128) == dark);
        CHECK(seen["ground"] == seen["picture_ground"]);
        CHECK(contrast(seen["ground"], seen["ink"]) > 7);
        CHECK(contrast(seen["picture_ground"], seen["picture_ink"]) > 7);
        CHECK(seen["areas"] == 7);
        CHECK(seen["bars"] > (layers == 2 ? 40 : 600));
        CHECK(seen["hatched"] > 0);
        CHECK(seen["kinds"] >= 6);
        for (const double picture : seen["svg_widths"]) {
          CHECK(picture <= width);
          CHECK(picture >= 0.8 * std::min(width, 1200));
        }
        CHECK(seen["smallest"] >= 11);
        CHECK(seen["outside"].empty());
        CHECK(seen["overlaps"].empty());
      }
    }
  }
}

}  // namespace
}  // namespace zt::test
