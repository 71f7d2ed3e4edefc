#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.h"
#include "plan/drawing.h"

namespace zt::report {
namespace {

using plan::xml_text;

constexpr int kWide = 1000;  // units of a plot's width
constexpr int kAxis = 26;    // pixels below the plot
constexpr int kGutter = 68;  // pixels left of it, for words
constexpr int kTop = 8;      // and above it

struct Scale {
  double low = 0, high = 1;
  std::int64_t first = 0, last = 1;
  int height = 0;  // of the plot
  bool cut = false;

  double x(double step) const {
    return kWide * (step - double(first)) / double(std::max<std::int64_t>(1, last - first));
  }
  double y(double value) const {
    return std::clamp(height * (high - value) / (high - low), -4., height + 4.);
  }
};

std::vector<double> tops_of(const Chart& chart) {
  std::vector<double> out;
  for (const Series& s : chart.series)
    for (const Bin& bin : s.curve->bins(chart.most_columns)) out.push_back(bin.max);
  std::ranges::sort(out);
  return out;
}

// A few values far above all others would press the rest flat.
bool cut_peaks(const Chart& chart, Scale* scale) {
  const std::vector<double> tops = tops_of(chart);
  if (tops.size() < 50) return false;
  const double most = tops[tops.size() * 97 / 100], room = most - scale->low;
  if (scale->high <= most + 2 * room) return false;
  scale->high = most + 0.25 * room;
  return true;
}

Scale scale_of(const Chart& chart, const StepRange& range) {
  Scale scale;
  scale.first = range.first, scale.last = range.last, scale.height = chart.height - kAxis - kTop;
  scale.low = std::numeric_limits<double>::infinity(), scale.high = -scale.low;
  for (const Series& s : chart.series) {
    scale.low = std::min(scale.low, s.curve->min());
    scale.high = std::max(scale.high, s.curve->max());
  }
  if (chart.from_zero) scale.low = std::min(0., scale.low);
  scale.cut = cut_peaks(chart, &scale);
  const double room = scale.high - scale.low;
  if (!(room > 1e-9 * std::abs(scale.high))) {
    const double around = scale.high == 0 ? 1 : 0.1 * std::abs(scale.high);
    scale.high += around;
    scale.low -= chart.from_zero ? 0 : around;
  } else {
    scale.high += 0.06 * room;
    scale.low -= chart.from_zero ? 0 : 0.06 * room;
  }
  return scale;
}

// 1, 2 or 5 times a power of ten, or of two for bytes.
double step_of(double room, int most, Unit unit) {
  if (unit == Unit::bytes) {
    double step = 1;
    while (step * most < room) step *= 2;
    return step;
  }
  const double power = std::pow(10, std::floor(std::log10(room / most)));
  for (const double factor : {1., 2., 5.})
    if (factor * power * most >= room * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

int decimals(double step) { return step >= 1 ? 0 : std::min(9, int(std::ceil(-std::log10(step) - 1e-9))); }

std::string plain_text(double value, int places) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e7)) return fmt::format("{:.3g}", value);
  return size >= 1e4 && places == 0 ? with_commas(std::llround(value))
                                    : fmt::format("{:.{}f}", value, places);
}

// "16.00 MiB" -> "16 MiB".
std::string without_zeros(std::string text) {
  const std::size_t at = text.find(".00 ");
  return at == std::string::npos ? text : text.erase(at, 3);
}

std::string axis_text(double value, double step, Unit unit) {
  switch (unit) {
    case Unit::plain:
    case Unit::per_second: return plain_text(value, decimals(step));
    case Unit::percent: return fmt::format("{:.{}f} %", 100 * value, decimals(100 * step));
    case Unit::bytes: return value == 0 ? "0" : without_zeros(human_bytes(std::llround(value)));
    case Unit::seconds: return value == 0 ? "0" : plan::time_text(value);
  }
  return "";
}

std::string grid(const Scale& scale, Unit unit, std::string* words) {
  std::string lines;
  const double step = step_of(scale.high - scale.low, 5, unit);
  for (double at = std::ceil(scale.low / step - 1e-9) * step; at <= scale.high; at += step) {
    if (std::abs(at) < 1e-9 * step) at = 0;
    const double y = kTop + scale.y(at);
    lines += fmt::format("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>\n", y);
    *words += fmt::format("<text class=\"y\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                          kGutter - 7, y + 4, xml_text(axis_text(at, step, unit)));
  }
  return lines;
}

std::string x_axis(const Scale& scale, int y) {
  std::string out = cat("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"", y, "\" y2=\"", y, "\"/>\n");
  const double room = double(std::max<std::int64_t>(1, scale.last - scale.first));
  const double step = std::max(1., step_of(room, 6, Unit::plain));
  int i = 0;
  for (double at = std::ceil(double(scale.first) / step) * step; at <= double(scale.last); at += step, ++i) {
    const double share = (at - double(scale.first)) / room;
    const char* const anchor = share < 0.04 ? "start" : share > 0.96 ? "end" : "middle";
    out += cat("<text class=\"x", i % 2 == 1 ? " wide" : "", "\" x=\"", plan::percent(share), "\" y=\"",
               y + 17, "\" text-anchor=\"", anchor, "\">", with_commas(std::llround(at)), "</text>\n");
  }
  return out;
}

std::string line_path(const std::vector<Bin>& bins, const Scale& scale) {
  std::string d;
  for (const Bin& bin : bins)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", scale.x(bin.step()), scale.y(bin.mean()));
  // A single value is a short dash.
  if (bins.size() == 1) d += "h4";
  return d;
}

std::string band_path(const std::vector<Bin>& bins, const Scale& scale) {
  std::string d;
  for (const Bin& bin : bins)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", scale.x(bin.step()), scale.y(bin.max));
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin)
    d += fmt::format("L{:.1f} {:.1f}", scale.x(bin->step()), scale.y(bin->min));
  return d + "Z";
}

std::string classes(const Series& s) {
  const char* const stroke = s.stroke == Stroke::line     ? "line"
                             : s.stroke == Stroke::dotted ? "line seldom"
                                                          : "line plan";
  return cat(stroke, " r", s.color, s.dash > 0 && s.stroke != Stroke::plan ? cat(" d", s.dash) : "");
}

std::string curves(const Chart& chart, const Scale& scale) {
  std::string bands, lines;
  for (const Series& s : chart.series) {
    const std::vector<Bin> bins = s.curve->bins(chart.most_columns);
    const bool spread = std::ranges::any_of(bins, [](const Bin& b) { return b.count > 1 && b.max > b.min; });
    if (spread)
      bands += cat("<path class=\"band r", s.color, "\" data-run=\"", s.run, "\" d=\"",
                   band_path(bins, scale), "\"/>\n");
    lines += cat("<path class=\"", classes(s), "\" data-run=\"", s.run, "\" data-name=\"", xml_text(s.name),
                 "\" d=\"", line_path(bins, scale), "\"/>\n");
  }
  return cat("<svg class=\"plot\" y=\"", kTop, "\" width=\"100%\" height=\"", scale.height,
             "\" viewBox=\"0 0 ", kWide, " ", scale.height, "\" preserveAspectRatio=\"none\">\n", bands,
             lines, "</svg>\n");
}

// Round ones, which the stretched plot can't draw.
std::string dots(const Chart& chart, const Scale& scale) {
  constexpr std::size_t kMostDots = 40;
  std::string out;
  for (const Series& s : chart.series) {
    const std::vector<Bin> bins = s.curve->bins(chart.most_columns);
    if (s.stroke != Stroke::dotted || bins.size() > kMostDots) continue;
    for (const Bin& bin : bins)
      out += cat("<circle class=\"dot r", s.color, "\" data-run=\"", s.run, "\" cx=\"",
                 plan::percent(scale.x(bin.step()) / kWide), "\" cy=\"",
                 fmt::format("{:.1f}", kTop + scale.y(bin.mean())), "\" r=\"3.5\"/>\n");
  }
  return out;
}

// One for each column, class and run, so that many checkpoints stay few lines.
std::string marks(const Chart& chart, const Scale& scale) {
  constexpr int kColumns = 200;
  struct Group {
    const Mark* first;
    int count;
  };
  std::map<std::tuple<int, std::string, int>, Group> groups;
  for (const Mark& mark : chart.marks) {
    if (mark.step < scale.first || mark.step > scale.last) continue;
    const int column = int(scale.x(double(mark.step)) * kColumns / kWide);
    ++groups.try_emplace({mark.run, mark.css_class, column}, Group{&mark, 0}).first->second.count;
  }
  std::string out;
  for (const auto& [key, group] : groups) {
    const std::string x = plan::percent(scale.x(double(group.first->step)) / kWide);
    const std::string more = group.count > 1 ? cat(" and ", group.count - 1, " more near it") : "";
    const bool tall = group.first->css_class != "calm";
    out += cat("<g class=\"mark ", group.first->css_class, "\" data-run=\"", group.first->run, "\"><title>",
               xml_text(group.first->text), more, "</title><line x1=\"", x, "\" x2=\"", x, "\" y1=\"",
               tall ? kTop : kTop + scale.height - 7, "\" y2=\"", kTop + scale.height, "\"/></g>\n");
  }
  return out;
}

std::string legend(const Chart& chart) {
  if (!chart.legend) return "";
  std::string out = "<p class=\"keys\">";
  for (const Series& s : chart.series)
    out += cat("<span><svg width=\"34\" height=\"10\" aria-hidden=\"true\"><line class=\"", classes(s),
               "\" x1=\"1\" x2=\"33\" y1=\"5\" y2=\"5\"/></svg>", xml_text(s.name), "</span>");
  return out + "</p>\n";
}

std::string description(const Chart& chart) {
  std::string out;
  for (const Series& s : chart.series)
    out += cat(out.empty() ? "" : "; ", s.name, ": ", value_text(s.curve->last(), chart.unit), " at step ",
               with_commas(s.curve->last_step()), ", from ", value_text(s.curve->min(), chart.unit), " to ",
               value_text(s.curve->max(), chart.unit));
  return out;
}

const char* word(Unit unit) {
  switch (unit) {
    case Unit::plain: return "";
    case Unit::per_second: return "count";
    case Unit::percent: return "percent";
    case Unit::bytes: return "bytes";
    case Unit::seconds: return "seconds";
  }
  return "";
}

}  // namespace

StepRange range_of(const std::vector<Series>& series, const StepRange& other) {
  StepRange out = other;
  for (const Series& s : series) {
    if (s.curve->empty()) continue;
    out.last = std::max(out.last, s.curve->last_step());
  }
  return out;
}

std::string value_text(double value, Unit unit) {
  if (!std::isfinite(value)) return "not finite";
  switch (unit) {
    case Unit::plain: return plain_text(value, std::abs(value) >= 100 ? 1 : 4);
    case Unit::per_second: return with_commas(std::llround(value));
    case Unit::percent: return fmt::format("{:.1f} %", 100 * value);
    case Unit::bytes: return human_bytes(std::llround(value));
    case Unit::seconds: return plan::time_text(value);
  }
  return "";
}

std::string chart_html(const Chart& given, const StepRange& range) {
  Chart chart = given;
  std::erase_if(chart.series, [](const Series& s) { return s.curve->empty(); });
  if (chart.series.empty()) return "";
  const Scale scale = scale_of(chart, range);
  std::string words;
  const std::string lines = grid(scale, chart.unit, &words);
  std::string out = fmt::format(
      "<figure class=\"chart\" id=\"{}\" data-first=\"{}\" data-last=\"{}\" data-low=\"{:.9g}\" "
      "data-high=\"{:.9g}\" "
      "data-height=\"{}\" data-unit=\"{}\">\n",
      chart.id, scale.first, scale.last, scale.low, scale.high, scale.height, word(chart.unit));
  std::string about = chart.about;
  if (scale.cut) about += cat(about.empty() ? "" : "; ", "the highest peaks are cut off");
  out += cat("<figcaption><b>", xml_text(chart.title), "</b> <span class=\"soft\">", xml_text(about),
             "</span></figcaption>\n", legend(chart));
  out +=
      cat("<div class=\"frame\"><svg class=\"gutter\" width=\"", kGutter, "\" height=\"", chart.height,
          "\" aria-hidden=\"true\">\n", words, "</svg><div class=\"area\"><svg width=\"100%\" height=\"",
          chart.height, "\" role=\"img\" aria-label=\"", xml_text(cat(chart.title, ". ", description(chart))),
          "\">\n", lines, marks(chart, scale), curves(chart, scale), dots(chart, scale),
          x_axis(scale, kTop + scale.height), "</svg></div></div>\n</figure>\n");
  return out;
}

}  // namespace zt::report
