#include "plan/gantt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"
#include "plan/exposed_waits.h"
#include "plan/gantt_bars.h"
#include "support/steps.h"
#include "support/xml.h"

namespace zt::plan {
namespace {

using schedule::Lane;
using schedule::OpKind;
using Document = std::vector<test::XmlElement>;

struct Rectangle {
  std::string classes, title;
  double x = 0, width = 0, y = 0;  // shares of the width; pixels
};

// The bars of every row of one class, row by row, as drawn: the whole step's first, then the windows'.
std::vector<std::vector<Rectangle>> rows(const Document& document, const std::string& row) {
  std::vector<std::vector<Rectangle>> out;
  for (std::size_t g = 0; g < document.size(); ++g) {
    if (document[g].tag != "g" || (document[g].at("class") + " ").find(" " + row + " ") == std::string::npos)
      continue;
    out.emplace_back();
    for (std::size_t i = 0; i < document.size(); ++i) {
      const test::XmlElement& e = document[i];
      if (e.parent != int(g) || e.tag != "rect" || e.at("class") == "idle") continue;
      out.back().push_back(
          {e.at("class"), document[i + 1].text, e.number("x") / 100, e.number("width") / 100, e.number("y")});
    }
  }
  return out;
}

Document drawn(const schedule::Schedule& list, const Simulation& simulation) {
  return test::parse_xml(gantt_svg(list, simulation));
}

std::vector<int> ops_of(const schedule::Schedule& list, Lane lane) {
  std::vector<int> out;
  for (std::size_t i = 0; i < list.ops.size(); ++i)
    if (list.ops[i].lane == lane) out.push_back(int(i));
  return out;
}

TEST_CASE(
    "gantt: in a small step every op has one rectangle in its lane, as long as its span and of its kind's "
    "colour") {
  for (const int ranks : {1, 4}) {
    for (const double comm : {0.3, 2.}) {
      CAPTURE(ranks);
      CAPTURE(comm);
      const schedule::Schedule list = test::small_step(3, 2, ranks);
      const Simulation simulation = test::played(list, comm);
      const Document document = drawn(list, simulation);
      std::size_t drawn_ops = 0;
      for (const Lane lane : {Lane::compute, Lane::comm}) {
        const std::vector<int> ops = ops_of(list, lane);
        if (ops.empty()) {
          CHECK(rows(document, name(lane)).empty());
          continue;
        }
        std::vector<Rectangle> bars = rows(document, name(lane)).front(), waits;
        std::erase_if(
            bars, [&](const Rectangle& r) { return r.classes == "wait" ? waits.push_back(r), true : false; });
        REQUIRE(bars.size() == ops.size());
        std::size_t waited = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
          const Span& span = simulation.spans[std::size_t(ops[i])];
          const schedule::Op& op = list.ops[std::size_t(ops[i])];
          CHECK(bars[i].x == doctest::Approx(span.start / simulation.seconds).epsilon(1e-4));
          CHECK(bars[i].x + bars[i].width == doctest::Approx(span.end / simulation.seconds).epsilon(1e-4));
          CHECK(bars[i].classes == paint(op.kind).css_class);
          CHECK(bars[i].title.find(name(op) + ": " + time_text(span.end - span.start)) == 0);
          if (span.waited > 0 && span.blocker >= 0)
            CHECK(bars[i].title.find("waiting for " + name(list.ops[std::size_t(span.blocker)])) !=
                  std::string::npos);
          waited += span.waited > 0;
        }
        CHECK(waits.size() == (lane == Lane::compute ? waited : 0));
        drawn_ops += bars.size();
      }
      CHECK(drawn_ops == list.ops.size());
      CHECK(rows(document, "critical").front().size() == simulation.critical.size());
    }
  }
}

TEST_CASE("gantt: no two rectangles of a row overlap, in the whole step and in its windows, small or large") {
  for (const auto& [layers, micros] : {std::pair{3, 2}, {20, 3}, {60, 40}}) {
    for (const double comm : {0.1, 0.9, 3.}) {
      CAPTURE(layers);
      CAPTURE(comm);
      const schedule::Schedule list = test::small_step(layers, micros, 4);
      const Document document = drawn(list, test::played(list, comm));
      for (const char* row : {"compute", "comm", "critical"})
        for (const std::vector<Rectangle>& bars : rows(document, row)) {
          for (std::size_t i = 0; i < bars.size(); ++i) {
            CHECK(bars[i].x >= 0);
            CHECK(bars[i].width >= 0);
            CHECK(bars[i].x + bars[i].width <= 1 + 1e-9);
            if (i > 0) CHECK(bars[i].x >= bars[i - 1].x + bars[i - 1].width - 1e-9);
          }
        }
    }
  }
}

TEST_CASE("gantt: merging keeps every kind's busy time and count, and moves nothing by more than a column") {
  const schedule::Schedule list = test::small_step(30, 60, 4);
  for (const double comm : {0.2, 1.5}) {
    const Simulation simulation = test::played(list, comm);
    for (const Lane lane : {Lane::compute, Lane::comm}) {
      const std::vector<Bar> all = lane_bars(list, simulation, lane);
      for (const double columns : {50., 1200., 1e7}) {
        CAPTURE(columns);
        const double pixel = simulation.seconds / columns;
        const std::vector<Bar> few = condensed(all, pixel);
        CHECK(few.size() <= columns * 11);
        std::map<int, double> before, after;
        std::map<int, int> count_before, count_after;
        for (const Bar& bar : all)
          before[bar.kind ? int(*bar.kind) : -1] += bar.length(),
              ++count_before[bar.kind ? int(*bar.kind) : -1];
        for (const Bar& bar : few)
          after[bar.kind ? int(*bar.kind) : -1] += bar.length(),
              count_after[bar.kind ? int(*bar.kind) : -1] += bar.count;
        CHECK(count_before == count_after);
        for (const auto& [kind, seconds] : before)
          CHECK(after[kind] == doctest::Approx(seconds).epsilon(1e-9));
        for (std::size_t i = 0; i < few.size(); ++i) {
          if (i > 0) CHECK(few[i].start >= few[i - 1].end - 1e-12);
          if (few[i].kind)
            CHECK(std::abs(few[i].start - simulation.spans[std::size_t(few[i].first)].start) <=
                  pixel * 1.001);
        }
      }
      CHECK(condensed(all, 1e-12) == all);
    }
  }
}

TEST_CASE("gantt: the rectangles of a merged step cover each kind's time within a pixel") {
  const schedule::Schedule list = test::small_step(40, 40, 4);
  const Simulation simulation = test::played(list, 1.2);
  const Document document = drawn(list, simulation);
  for (const Lane lane : {Lane::compute, Lane::comm}) {
    std::map<std::string, double> shown, planned;
    const std::vector<Rectangle> bars = rows(document, name(lane)).front();
    for (const Rectangle& r : bars) shown[r.classes] += r.width;
    for (const int op : ops_of(list, lane)) {
      const Span& span = simulation.spans[std::size_t(op)];
      planned[paint(list.ops[std::size_t(op)].kind).css_class] +=
          (span.end - span.start) / simulation.seconds;
      if (lane == Lane::compute && span.waited > 0) planned["wait"] += span.waited / simulation.seconds;
    }
    CHECK(shown.size() == planned.size());
    for (const auto& [kind, share] : planned) {
      CAPTURE(kind);
      CHECK(std::abs(shown[kind] - share) <= 1. / 1200);
    }
  }
}

TEST_CASE("gantt: fifty thousand ops take less than 3 MB and a second") {
  const schedule::Schedule list = test::small_step(80, 120, 8);
  REQUIRE(list.ops.size() > 50'000);
  const Simulation simulation = test::played(list, 0.8);
  const auto begin = std::chrono::steady_clock::now();
  const std::string svg = gantt_svg(list, simulation);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 1);
  CHECK(svg.size() < 3'000'000);
}

TEST_CASE("gantt: a large step has a window on the longest wait and one on its begin, a small one has none") {
  const schedule::Schedule list = test::small_step(30, 4, 4);
  Simulation simulation = test::played(list, 0.1);
  const std::vector<int> compute = ops_of(list, Lane::compute);
  for (Span& span : simulation.spans) span.waited = 0;
  const std::vector<Window> calm = windows_of(list, simulation);
  REQUIRE(calm.size() == 1);
  CHECK(calm[0].op == -1);
  CHECK(calm[0].from == simulation.spans[std::size_t(compute[0])].start);
  for (const std::size_t at : {std::size_t(3), compute.size() / 2, compute.size() - 1}) {
    CAPTURE(at);
    Simulation waits = simulation;
    Span& span = waits.spans[std::size_t(compute[at])];
    span.waited = 1e-4;
    const std::vector<Window> windows = windows_of(list, waits);
    REQUIRE(windows.size() == (at == 3 ? 1 : 2));
    CHECK(windows.back().op == compute[at]);
    CHECK(windows.back().from <= span.start - span.waited);
    CHECK(windows.back().to >= span.end);
    int inside = 0;
    for (const int op : compute)
      inside += waits.spans[std::size_t(op)].start >= windows.back().from &&
                waits.spans[std::size_t(op)].end <= windows.back().to;
    CHECK(inside == kWindowOps);
  }
  const schedule::Schedule small = test::small_step(2, 1, 4);
  CHECK(windows_of(small, test::played(small)).empty());
}

TEST_CASE("gantt: steps without ops or of no length are drawn, wrong ones refused") {
  test::parse_xml(gantt_svg({}, {}));
  const schedule::Schedule list = test::small_step(2, 1, 1);
  Simulation still;
  still.spans.resize(list.ops.size());
  CHECK(rows(drawn(list, still), "compute").front().size() == list.ops.size());
  CHECK_THROWS_WITH_AS(gantt_svg(list, {}), doctest::Contains("times of 0 ops"), Error);
  still.spans[1].end = std::nan("");
  CHECK_THROWS_WITH_AS(gantt_svg(list, still), doctest::Contains("no finite time"), Error);
}

TEST_CASE("exposed waits: they add up to what the simulation says, longest first, by block") {
  const schedule::Schedule list = test::small_step(12, 3, 4);
  const Simulation simulation = test::played(list, 2);
  const std::vector<BlockWaits> waits = exposed_waits(list, simulation);
  double sum = 0;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    sum += waits[i].seconds;
    CHECK(list.ops[std::size_t(waits[i].op)].block == waits[i].block);
    CHECK(simulation.spans[std::size_t(waits[i].op)].waited == waits[i].longest);
    if (i > 0) CHECK(waits[i].seconds <= waits[i - 1].seconds);
  }
  REQUIRE(simulation.exposed > 0);
  CHECK(sum == doctest::Approx(simulation.exposed));
  const PageTable table = exposed_waits_table(list, simulation, 4);
  REQUIRE(table.rows.size() == 6);
  CHECK(table.rows[4][0] == cat(waits.size() - 4, " more"));
  CHECK(table.rows.back()[2] == time_text(simulation.exposed));
  CHECK(exposed_waits_table(test::small_step(2, 1, 1), test::played(test::small_step(2, 1, 1))).rows.empty());
}

}  // namespace
}  // namespace zt::plan
