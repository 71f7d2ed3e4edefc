// Curves over steps as one picture: SVG inside a figure, styled by the page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/curve.h"

namespace zt::report {

enum class Unit { plain, per_second, percent, bytes, seconds };

// How a curve is drawn: what was measured; at some steps only, with dots; or what was planned.
enum class Stroke { line, dotted, plan };

struct Series {
  int run = 0;    // toggled with the others of its run
  int color = 0;  // of the page's colours, from 0; they repeat
  int dash = 0;   // pattern
  Stroke stroke = Stroke::line;
  std::string name;
  const Curve* curve = nullptr;
};

// What happened at a step.
struct Mark {
  int run = 0;
  std::string css_class;  // of the mark: good, bad, calm
  std::int64_t step = 0;
  std::string text;
};

struct Chart {
  std::string id, title, about;
  Unit unit = Unit::plain;
  bool from_zero = false;  // the axis begins at 0
  bool legend = false;     // names its series; else the page's legend does
  int height = 220;
  int most_columns = 700;  // of a curve
  std::vector<Series> series;
  std::vector<Mark> marks;
};

// Steps from the first to the last of all charts of a page.
struct StepRange {
  std::int64_t first = 0, last = 1;
};
StepRange range_of(const std::vector<Series>& series, const StepRange& other);

// Three or four digits and the unit: "2.345", "61.2 %", "3.20 GiB".
std::string value_text(double value, Unit unit);

// What is far above nearly all of the values is cut off, and the picture says so.
std::string chart_html(const Chart& chart, const StepRange& range);

}  // namespace zt::report
