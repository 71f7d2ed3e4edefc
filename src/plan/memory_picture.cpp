#include "plan/memory_picture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"

namespace zt::plan {
namespace {

constexpr int kColumns = kPictureWidth;
constexpr int kPlotTop = 72, kPlotHeight = 260, kPlotBottom = kPlotTop + kPlotHeight;
constexpr int kLegendTop = kPlotBottom + 40;
// A limit that is further above the peak would press the areas flat; then words tell it.
constexpr double kLimitInSight = 2.5;

// A stretch of the axis, which goes from 0 to 1.
struct Stretch {
  double from = 0, to = 1;
};

// Where each op's bytes are drawn. With time the compute lane is the clock, and memory is planned in the order of the
// list: other ops have the stretch of the compute op before them, wherever their own lane was then.
std::vector<Stretch> stretches_of(const schedule::Schedule& list, const Simulation* time) {
  const std::size_t n = list.ops.size();
  std::vector<Stretch> out(n);
  double from = 0;
  std::size_t group = 0;  // first op of the current stretch
  const auto close = [&](std::size_t end, double to) {
    for (; group < end; ++group) out[group] = {from, to};
    from = to;
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (time == nullptr) {
      close(i, double(i) / double(n));
    } else if (list.ops[i].lane == schedule::Lane::compute) {
      const double share = time->seconds > 0 ? time->spans[i].start / time->seconds : 0;
      close(i, std::clamp(share, from, 1.));
    }
  }
  close(n, 1);
  return out;
}

// For each column the op with the most bytes that has a part in it; -1 without ops.
std::vector<int> columns_of(const MemoryStack& stack, const std::vector<Stretch>& stretches) {
  std::vector<int> columns(kColumns, -1);
  std::vector<std::int64_t> most(kColumns, 0);
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const int from = std::min(kColumns - 1, int(stretches[i].from * kColumns + 1e-6));
    const int to = std::max(from, int(std::ceil(stretches[i].to * kColumns - 1e-6)) - 1);
    const std::int64_t total = stack.total(i);
    for (int c = from; c <= to; ++c) {
      const std::size_t at = std::size_t(c);
      if (columns[at] < 0 || total > most[at]) columns[at] = int(i), most[at] = total;
    }
  }
  return columns;
}

struct Plot {
  const MemoryStack& stack;
  std::vector<int> columns;
  int peak_at = -1;       // op
  std::int64_t peak = 0;  // bytes
  double top = 1;         // bytes at the upper edge

  double y(std::int64_t bytes) const { return kPlotHeight * (1 - double(bytes) / top); }
};

Plot plot_of(const MemoryStack& stack, const schedule::Schedule& list, const MemoryPicture& picture) {
  Plot plot{stack, columns_of(stack, stretches_of(list, picture.time))};
  plot.peak_at = peak_op(stack);
  plot.peak = plot.peak_at < 0 ? stack.constant : stack.total(std::size_t(plot.peak_at));
  const double peak = double(plot.peak), limit = double(picture.device_bytes);
  plot.top = std::max(1., 1.06 * (limit <= kLimitInSight * peak ? std::max(peak, limit) : peak));
  return plot;
}

// The area under the constant part and the first `layers` layers, as a path in units of columns and pixels.
std::string area(const Plot& plot, std::size_t layers) {
  std::string path = cat("M0 ", kPlotHeight), last;
  for (int c = 0; c < kColumns; ++c) {
    const int op = plot.columns[std::size_t(c)];
    std::int64_t bytes = plot.stack.constant;
    for (std::size_t k = 0; k < layers && op >= 0; ++k) bytes += plot.stack.layers[k].bytes[std::size_t(op)];
    const std::string y = fmt::format("{:.2f}", plot.y(bytes));
    if (y == last) continue;
    path += cat(c == 0 ? "" : cat("H", c), "V", y);
    last = y;
  }
  return path + cat("H", kColumns, "V", kPlotHeight, "Z");
}

std::string layer_words(const Plot& plot, const MemoryLayer& layer) {
  const std::int64_t most =
      layer.bytes.empty() ? 0 : *std::max_element(layer.bytes.begin(), layer.bytes.end());
  const std::int64_t at_peak = plot.peak_at < 0 ? 0 : layer.bytes[std::size_t(plot.peak_at)];
  return cat(layer.name, ": ", human_bytes(at_peak), " at the peak, at most ", human_bytes(most));
}

// From the highest down, each over the one before, so that no seams show between them.
std::string areas(const Plot& plot) {
  std::string out =
      cat("<svg class=\"areas\" y=\"", kPlotTop, "\" width=\"100%\" height=\"", kPlotHeight,
          "\" viewBox=\"0 0 ", kColumns, " ", kPlotHeight, "\" preserveAspectRatio=\"none\">\n");
  for (std::size_t k = plot.stack.layers.size() + 1; k-- > 0;) {
    const std::string words = k == 0 ? cat("all the time: ", human_bytes(plot.stack.constant))
                                     : layer_words(plot, plot.stack.layers[k - 1]);
    out += cat("<path class=\"", layer_paint(k).css_class, "\" d=\"", area(plot, k), "\"><title>",
               xml_text(words), "</title></path>\n");
  }
  return out + "</svg>\n";
}

std::string y_axis(const Plot& plot) {
  std::string out;
  for (const Tick& tick : byte_ticks(plot.top, 6)) {
    const double y = kPlotTop + kPlotHeight * (1 - tick.at);
    if (tick.at > 0)
      out += fmt::format(
          "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
          "<text class=\"t halo\" x=\"4\" y=\"{1:.1f}\">{2}</text>\n",
          y, y - 4, tick.text);
  }
  return out;
}

std::string limit_line(const Plot& plot, std::int64_t limit) {
  if (limit <= 0 || double(limit) > plot.top) return "";
  const double y = kPlotTop + plot.y(limit);
  return fmt::format(
      "<line class=\"limit\" x1=\"0\" x2=\"100%\" y1=\"{0:.2f}\" y2=\"{0:.2f}\"/>"
      "<text class=\"t halo over\" x=\"99.5%\" y=\"{1:.2f}\" text-anchor=\"end\">the device has {2}</text>\n",
      y, y + 15, human_bytes(limit));
}

// Two lines above the plot and a stroke down to the peak.
std::string peak_mark(const Plot& plot, const schedule::Schedule& list) {
  if (plot.peak_at < 0) return "";
  const std::size_t column =
      std::size_t(std::find(plot.columns.begin(), plot.columns.end(), plot.peak_at) - plot.columns.begin());
  const double x = (double(std::min<std::size_t>(column, kColumns - 1)) + 0.5) / kColumns;
  const char* const anchor = x < 0.35 ? "start" : x > 0.65 ? "end" : "middle";
  const std::string at = percent(x);
  return cat(fmt::format("<line class=\"ink\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2:.1f}\"/>\n", at,
                         kPlotTop - 10, kPlotTop + plot.y(plot.peak)),
             "<text class=\"t\" text-anchor=\"", anchor, "\"><tspan x=\"", at, "\" y=\"", kPlotTop - 30,
             "\">peak ", human_bytes(plot.peak), "</tspan><tspan x=\"", at, "\" y=\"", kPlotTop - 15, "\">",
             xml_text(name(list.ops[std::size_t(plot.peak_at)])), "</tspan></text>\n");
}

std::string limit_words(const Plot& plot, std::int64_t limit) {
  if (limit <= 0) return "";
  const bool over = limit < plot.peak;
  return cat("device: ", human_bytes(limit), ", ", human_bytes(over ? plot.peak - limit : limit - plot.peak),
             over ? " below the peak" : " above the peak");
}

std::string description(const Plot& plot, const schedule::Schedule& list, std::int64_t limit) {
  std::string out = cat("Peak ", human_bytes(plot.peak));
  if (plot.peak_at >= 0) out += cat(" at ", name(list.ops[std::size_t(plot.peak_at)]));
  out += cat("; ", human_bytes(plot.stack.constant), " are there all the time.");
  for (const MemoryLayer& layer : plot.stack.layers) out += cat(" ", layer_words(plot, layer), ".");
  return limit > 0 ? out + cat(" The ", limit_words(plot, limit), ".") : out;
}

// Without layers that never hold a byte.
std::vector<LegendEntry> legend_entries(const MemoryStack& stack) {
  std::vector<LegendEntry> out = {{layer_paint(0).css_class, "all the time"}};
  for (std::size_t k = 0; k < stack.layers.size(); ++k) {
    const auto& bytes = stack.layers[k].bytes;
    if (std::any_of(bytes.begin(), bytes.end(), [](std::int64_t b) { return b > 0; }))
      out.push_back({layer_paint(k + 1).css_class, stack.layers[k].name});
  }
  return out;
}

void check(const MemoryStack& stack, const schedule::Schedule& list, const Simulation* time) {
  for (const MemoryLayer& layer : stack.layers)
    if (layer.bytes.size() != list.ops.size())
      throw Error(Blame::bug, cat("'", layer.name, "' has ", layer.bytes.size(), " sizes for a list of ",
                                  list.ops.size(), " ops"));
  if (time != nullptr && time->spans.size() != list.ops.size())
    throw Error(Blame::bug, cat("times of ", time->spans.size(), " ops for a list of ", list.ops.size()));
}

std::string rules(const std::string& id, const char* red) {
  return cat("#", id, " .limit{stroke:", red, ";stroke-width:2;stroke-dasharray:8 5}#", id,
             " .over{fill:", red, "}\n");
}

}  // namespace

std::string memory_svg(const MemoryStack& stack, const schedule::Schedule& list,
                       const MemoryPicture& picture) {
  check(stack, list, picture.time);
  const Plot plot = plot_of(stack, list, picture);
  const std::vector<LegendEntry> entries = legend_entries(stack);
  const int words_at = kLegendTop + legend_height(entries.size()) + 12;
  Frame frame{picture.id,
              picture.title,
              description(plot, list, picture.device_bytes),
              words_at + 10,
              rules(picture.id, "#c1121f"),
              rules(picture.id, "#ff7b72"),
              ""};
  const std::vector<Tick> x = picture.time != nullptr ? time_ticks(0, picture.time->seconds, 9)
                                                      : count_ticks(double(list.ops.size()), 9);
  return open_svg(frame, layer_paints()) + areas(plot) + y_axis(plot) +
         limit_line(plot, picture.device_bytes) + peak_mark(plot, list) + x_axis(x, kPlotBottom) +
         legend(entries, kLegendTop) +
         cat("<text class=\"t s\" x=\"0\" y=\"", words_at, "\">", limit_words(plot, picture.device_bytes),
             "</text>\n</svg>\n");
}

}  // namespace zt::plan
