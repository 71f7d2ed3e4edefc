#include "plan/gantt.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"
#include "plan/gantt_bars.h"

namespace zt::plan {
namespace {

using schedule::Lane;
using schedule::OpKind;

constexpr int kBarHeight = 28, kRowHeight = 52, kAxisHeight = 34, kHeadingHeight = 24;
constexpr int kLetter = 7;  // pixels, about, in a bar's label
constexpr int kSlimWidth = 330;

constexpr std::array kKindOrder = {OpKind::gather, OpKind::forward,  OpKind::recompute,
                                   OpKind::head,   OpKind::backward, OpKind::accumulate,
                                   OpKind::reduce, OpKind::norm,     OpKind::update};

// One lane, or the critical path.
struct Row {
  std::string title, near_title, name;
  std::vector<Bar> bars;
};

struct View {
  const schedule::Schedule& list;
  const Simulation& simulation;
  std::vector<Row> rows;
  std::vector<bool> critical;  // by op
  double begin = 0, end = 1;   // of everything
};

void check(const schedule::Schedule& list, const Simulation& simulation) {
  if (simulation.spans.size() != list.ops.size())
    throw Error(Blame::bug,
                cat("times of ", simulation.spans.size(), " ops for a list of ", list.ops.size()));
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const Span& span = simulation.spans[i];
    if (!std::isfinite(span.start) || !std::isfinite(span.end) || !std::isfinite(span.waited))
      throw Error(Blame::bug, cat("#", i, " `", name(list.ops[i]), "` has no finite time"));
  }
}

std::string share_of_step(double seconds, const Simulation& simulation) {
  return simulation.seconds > 0 ? fmt::format(", {:.1f} % of the step", 100 * seconds / simulation.seconds)
                                : "";
}

std::string lane_title(const Simulation& simulation, Lane lane) {
  const double busy = simulation.busy[std::size_t(lane)];
  return cat(name(lane), ": busy ", time_text(busy), share_of_step(busy, simulation));
}

View view_of(const schedule::Schedule& list, const Simulation& simulation) {
  View view{list, simulation, {}, std::vector<bool>(list.ops.size())};
  for (int l = 0; l < schedule::kLanes; ++l) {
    std::vector<Bar> bars = lane_bars(list, simulation, Lane(l));
    if (!bars.empty())
      view.rows.push_back({lane_title(simulation, Lane(l)), name(Lane(l)), name(Lane(l)), std::move(bars)});
  }
  std::vector<Bar> path = critical_bars(list, simulation);
  if (!path.empty())
    view.rows.push_back(
        {"critical path: nothing else shortens the step", "critical path", "critical", std::move(path)});
  for (const int op : simulation.critical)
    if (op >= 0 && std::size_t(op) < list.ops.size()) view.critical[std::size_t(op)] = true;
  view.end = simulation.seconds;
  for (const Row& row : view.rows)
    for (const Bar& bar : row.bars)
      view.begin = std::min(view.begin, bar.start), view.end = std::max(view.end, bar.end);
  if (!(view.end > view.begin)) view.end = view.begin + 1;
  return view;
}

std::string op_name(const View& view, int op) {
  return op < 0 ? "the step before" : name(view.list.ops[std::size_t(op)]);
}

std::string wait_words(const View& view, int op) {
  if (op < 0)
    return cat("the end of the step waits ", time_text(view.simulation.tail), " for the other lanes");
  const Span& span = view.simulation.spans[std::size_t(op)];
  return cat(op_name(view, op), " waits ", time_text(span.waited), " for ", op_name(view, span.blocker));
}

// What a bar says when it is pointed at.
std::string words(const View& view, const Bar& bar) {
  if (bar.count > 1 && bar.last >= 0)
    return cat(with_commas(bar.count), bar.kind ? cat(" x ", name(*bar.kind)) : " waits", ", ",
               op_name(view, bar.first), " to ", op_name(view, bar.last), ": ", time_text(bar.length()),
               " in sum from ", time_text(bar.start));
  if (!bar.kind) return wait_words(view, bar.first);
  const Span& span = view.simulation.spans[std::size_t(bar.first)];
  std::string out =
      cat(op_name(view, bar.first), ": ", time_text(span.end - span.start), " from ", time_text(span.start));
  return span.waited > 0
             ? out + cat(", after ", time_text(span.waited), " of waiting for ", op_name(view, span.blocker))
             : out;
}

// The block's name, where there is room for it; a class tells whether a narrow picture has room too.
std::string label(const View& view, const Bar& bar, double share, const std::string& x, int y) {
  if (!bar.kind || bar.count > 1 || view.list.ops[std::size_t(bar.first)].block < 0) return "";
  const std::string text = cat("b", view.list.ops[std::size_t(bar.first)].block);
  const double needed = double(kLetter) * double(text.size()) + 6;
  if (share * kPictureWidth < needed) return "";
  return cat("<text class=\"t in on-", paint(*bar.kind).css_class, share * kSlimWidth < needed ? " wide" : "",
             "\" x=\"", x, "\" y=\"", y + 18, "\">", text, "</text>\n");
}

std::string rectangle(const View& view, const Bar& bar, const Window& window, int y, bool outlined) {
  const double length = window.to - window.from;
  const std::int64_t left = percent_steps((bar.start - window.from) / length),
                     right = percent_steps((bar.end - window.from) / length);
  const std::string id_class = bar.kind ? paint(*bar.kind).css_class : "wait";
  const bool edge = outlined && bar.count == 1 && bar.kind && view.critical[std::size_t(bar.first)];
  return cat("<rect class=\"", id_class, edge ? " crit" : "", "\" x=\"", percent_of_steps(left), "\" y=\"", y,
             "\" width=\"", percent_of_steps(right - left), "\" height=\"", kBarHeight, "\"><title>",
             xml_text(words(view, bar)), "</title></rect>\n") +
         label(view, bar, double(right - left) * 1e-6, percent_of_steps((left + right) / 2), y);
}

std::string row_drawing(const View& view, const Row& row, const Window& window, int y, bool whole) {
  const double pixel = (window.to - window.from) / kPictureWidth;
  std::vector<Bar> bars = whole ? row.bars : clipped(row.bars, window.from, window.to);
  if (!whole || std::ptrdiff_t(row.bars.size()) > kPictureWidth) bars = condensed(bars, pixel);
  std::string out = cat("<text class=\"t\" x=\"0\" y=\"", y + 14, "\">",
                        xml_text(whole ? row.title : row.near_title), "</text>\n<g class=\"row ", row.name,
                        whole ? "" : " near", "\">\n<rect class=\"idle\" x=\"0\" y=\"", y + 20,
                        "\" width=\"100%\" height=\"", kBarHeight, "\"/>\n");
  for (const Bar& bar : bars) out += rectangle(view, bar, window, y + 20, row.name != "critical" && !whole);
  return out + "</g>\n";
}

int rows_height(const View& view) { return int(view.rows.size()) * kRowHeight + kAxisHeight; }

std::string rows_drawing(const View& view, const Window& window, int y, bool whole) {
  std::string out;
  for (const Row& row : view.rows) {
    out += row_drawing(view, row, window, y, whole);
    y += kRowHeight;
  }
  return out + x_axis(time_ticks(window.from, window.to, 9), y + 2);
}

std::string heading(const View& view, const Window& window, char letter, int y) {
  std::string out = cat("<text class=\"title\" x=\"0\" y=\"", y + 16, "\">", letter,
                        window.op < 0 ? ": begin of the step" : ": longest wait", "</text>\n");
  if (window.op >= 0)
    out += cat("<text class=\"t\" x=\"0\" y=\"", y + 34, "\">", xml_text(wait_words(view, window.op)),
               "</text>\n");
  return out;
}

// The windows' places in the picture of the whole step, lettered: brackets above y.
std::string window_marks(const View& view, const std::vector<Window>& windows, int y) {
  std::string out;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const double length = view.end - view.begin;
    const std::string from = percent((windows[i].from - view.begin) / length),
                      to = percent((windows[i].to - view.begin) / length);
    const bool right = windows[i].from - view.begin > 0.97 * length;
    out += cat("<line class=\"mark\" x1=\"", from, "\" x2=\"", to, "\" y1=\"", y - 2, "\" y2=\"", y - 2,
               "\"/><line class=\"mark\" x1=\"", from, "\" x2=\"", from, "\" y1=\"", y - 4, "\" y2=\"", y + 4,
               "\"/><text class=\"t\" dx=\"", right ? -3 : 3, "\" text-anchor=\"", right ? "end" : "start",
               "\" x=\"", from, "\" y=\"", y - 6, "\">", char('A' + i), "</text>\n");
  }
  return out;
}

std::vector<LegendEntry> legend_entries(const View& view) {
  std::vector<LegendEntry> out;
  const auto occurs = [&](OpKind kind) {
    return std::any_of(view.list.ops.begin(), view.list.ops.end(),
                       [&](const auto& op) { return op.kind == kind; });
  };
  for (const OpKind kind : kKindOrder)
    if (occurs(kind)) out.push_back({paint(kind).css_class, name(kind)});
  const auto& spans = view.simulation.spans;
  if (std::any_of(spans.begin(), spans.end(), [](const Span& s) { return s.waited > 0; }))
    out.push_back({"wait", "compute stands still"});
  return out;
}

std::string description(const View& view) {
  const Simulation& s = view.simulation;
  std::string out = cat("One step takes ", time_text(s.seconds), ".");
  for (int l = 0; l < schedule::kLanes; ++l)
    if (s.busy[std::size_t(l)] > 0) out += cat(" Lane ", lane_title(s, Lane(l)), ".");
  return out + cat(" Computation stands still for communication for ", time_text(s.exposed), ".");
}

std::string rules(const std::string& id, const char* ground, const char* idle, const char* red,
                  const char* pale, const char* ink) {
  const std::string s = "#" + id + " ";
  return cat(s, ".idle{fill:", idle, "}", s, ".near rect{stroke:", ground, ";stroke-width:1}", s,
             ".near .crit{stroke:", ink, ";stroke-width:1.5}", s, ".mark{stroke:", ink, "}", s,
             ".red{fill:", red, "}", s, ".pale{fill:", pale, "}\n");
}

Frame frame_of(const View& view, const GanttPicture& picture, int height) {
  const std::string s = "#" + picture.id + " ";
  const std::string fixed = cat(s, ".wait{fill:url(#", picture.id, "-hatch)}", s, ".mark{stroke-width:2}", s,
                                ".in{text-anchor:middle;font-size:11px}\n");
  return {picture.id, picture.title, description(view), height,
          fixed + rules(picture.id, "#ffffff", "#eef1f4", "#c1121f", "#ffe3e3", "#1f2328"),
          rules(picture.id, "#16191d", "#262b31", "#ff6b6b", "#4a1f22", "#e6edf3"),
          // Where bars are narrow, outlines would be all one sees.
          s + ".near .crit{stroke:none}"};
}

std::string hatch(const std::string& id) {
  return cat("<defs><pattern id=\"", id, "-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" ",
             "patternTransform=\"rotate(45)\"><rect class=\"pale\" width=\"6\" height=\"6\"/>",
             "<rect class=\"red\" width=\"3\" height=\"6\"/></pattern></defs>\n");
}

std::vector<Paint> kind_paints() {
  std::vector<Paint> out;
  for (const OpKind kind : kKindOrder) out.push_back(paint(kind));
  return out;
}

}  // namespace

std::string gantt_svg(const schedule::Schedule& list, const Simulation& simulation,
                      const GanttPicture& picture) {
  check(list, simulation);
  const View view = view_of(list, simulation);
  const std::vector<Window> windows = windows_of(list, simulation);
  const std::vector<LegendEntry> entries = legend_entries(view);
  constexpr int kTop = 44;
  std::string body = rows_drawing(view, {view.begin, view.end, -1}, kTop, true);
  int y = kTop + rows_height(view);
  body += window_marks(view, windows, kTop);
  body += legend(entries, y);
  y += legend_height(entries.size()) + 8;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    body += heading(view, windows[i], char('A' + i), y);
    y += windows[i].op < 0 ? kHeadingHeight : kHeadingHeight + 18;
    body += rows_drawing(view, windows[i], y, false);
    y += rows_height(view) + 8;
  }
  return open_svg(frame_of(view, picture, y), kind_paints()) + hatch(picture.id) + body + "</svg>\n";
}

}  // namespace zt::plan
