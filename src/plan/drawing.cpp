#include "plan/drawing.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {
namespace {

// Length of the UTF-8 character at `at`; 0 when there is none that XML 1.0 allows (section 2.2, "Char").
std::size_t character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r' ? 1 : 0;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  unsigned code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff || code == 0xfffe || code == 0xffff ? 0 : length;
}

// 1, 2 or 5 times a power of ten, so that at most `most` of them fit into `length`.
double round_step(double length, int most) {
  const double least = length / most, power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1., 2., 5.})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

int decimals_of(double step) { return step >= 1 ? 0 : int(std::ceil(-std::log10(step) - 1e-9)); }

// Marks at multiples of a round step of `unit`; `say` makes their words from the number in that unit and decimals.
template <typename Say>
std::vector<Tick> ticks(double from, double to, int most, double unit, const Say& say) {
  std::vector<Tick> out;
  if (!(to > from)) return out;
  const double step = round_step((to - from) / unit, most);
  const double first = std::ceil(from / unit / step - 1e-9);
  for (int i = 0; i <= most; ++i) {
    const double value = (first + i) * step, at = (value * unit - from) / (to - from);
    if (at > 1 + 1e-9) break;
    out.push_back({std::clamp(at, 0., 1.), say(value, decimals_of(step))});
  }
  return out;
}

struct Unit {
  const char* name;
  double size;
};
// The largest of which there is at least one.
Unit unit_of(double amount, const std::vector<Unit>& units) {
  for (const Unit& unit : units)
    if (amount >= unit.size) return unit;
  return units.back();
}
const std::vector<Unit> kTimeUnits = {{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}};
const std::vector<Unit> kByteUnits = {{"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30},
                                      {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}};

const char* anchor(double at) { return at < 0.03 ? "start" : at > 0.97 ? "end" : "middle"; }

std::string paint_rules(const std::string& id, const std::vector<Paint>& paints, bool dark) {
  std::string out;
  for (const Paint& p : paints) {
    const Rgb color = dark ? p.dark : p.light;
    out += cat("#", id, " .", p.css_class, "{fill:", hex(color), "}#", id, " .on-", p.css_class,
               "{fill:", hex(ink_on(color)), "}\n");
  }
  return out;
}

struct Theme {
  const char *ground, *ink, *soft, *line;
};
std::string theme_rules(const std::string& id, const Theme& t) {
  const std::string s = "#" + id + " ";
  return cat(s, ".bg{fill:", t.ground, "}", s, "text{fill:", t.ink, "}", s, ".s{fill:", t.soft, "}", s,
             ".grid{stroke:", t.line, "}", s, ".ink{stroke:", t.ink, "}", s, ".halo{stroke:", t.ground,
             "}\n");
}

std::string style(const Frame& f, const std::vector<Paint>& paints) {
  const std::string s = "#" + f.id + " ";
  const Theme light = {"#ffffff", "#1f2328", "#59636e", "#c8d1da"},
              dark = {"#16191d", "#e6edf3", "#9aa4af", "#3d444d"};
  return cat("#", f.id,
             "{max-width:100%;font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\n", s,
             ".title{font-size:15px;font-weight:600}", s, ".t{font-size:12px}", s,
             ".halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}", s, ".slim{display:none}", s,
             ".ink{stroke-width:1.5}\n", theme_rules(f.id, light), paint_rules(f.id, paints, false), f.style,
             "@media screen and (prefers-color-scheme:dark){\n", theme_rules(f.id, dark),
             paint_rules(f.id, paints, true), f.dark, "}\n@media (max-width:640px){", s,
             ".slim{display:inline}", s, ".wide{display:none}", f.narrow, "}\n");
}

bool is_name(const std::string& id) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !id.empty() && letter(id[0]) && std::all_of(id.begin(), id.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string legend_rows(const std::vector<LegendEntry>& entries, int y, int columns) {
  std::string out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double x = double(i % std::size_t(columns)) / columns;
    const int top = y + int(i / std::size_t(columns)) * 20;
    out += cat("<rect class=\"", entries[i].css_class, "\" x=\"", percent(x), "\" y=\"", top,
               "\" width=\"12\" height=\"12\"/><text class=\"t\" dx=\"18\" x=\"", percent(x), "\" y=\"",
               top + 10, "\">", xml_text(entries[i].text), "</text>\n");
  }
  return out;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character(text, i);
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (text[i] == '&')
      out += "&amp;";
    else if (text[i] == '<')
      out += "&lt;";
    else if (text[i] == '>')
      out += "&gt;";
    else if (text[i] == '"')
      out += "&quot;";
    else if (text[i] == '\'')
      out += "&#39;";
    else
      out += text.substr(i, length);
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds == 0) return "0 s";
  constexpr double kYear = 31557600, kLong = 100 * kYear;
  if (std::abs(seconds) >= kLong) return fmt::format("{:.3g} years", seconds / kYear);
  if (std::abs(seconds) >= 599.5) return human_seconds(seconds);
  // 999.5 of a unit and more would be printed as 1000.
  const Unit unit = unit_of(std::abs(seconds) / 0.9995, kTimeUnits);
  const double amount = seconds / unit.size, size = std::abs(amount);
  return fmt::format("{:.{}f} {}", amount, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, unit.name);
}

std::vector<Tick> time_ticks(double from, double to, int most) {
  const Unit unit = unit_of(std::max(std::abs(from), std::abs(to)), kTimeUnits);
  return ticks(from, to, most, unit.size, [&](double value, int decimals) {
    return value == 0 ? std::string("0") : fmt::format("{:.{}f} {}", value, decimals, unit.name);
  });
}

std::vector<Tick> byte_ticks(double top, int most) {
  const Unit unit = unit_of(top, kByteUnits);
  return ticks(0, top, most, unit.size, [&](double value, int decimals) {
    return value == 0 ? std::string("0") : fmt::format("{:.{}f} {}", value, decimals, unit.name);
  });
}

std::vector<Tick> count_ticks(double count, int most) {
  return ticks(0, count, std::max(1, int(std::min<double>(most, count))), 1,
               [&](double value, int) { return with_commas(std::llround(value)); });
}

std::int64_t percent_steps(double share) { return std::llround(share * 1e6); }
std::string percent_of_steps(std::int64_t steps) {
  std::string text =
      fmt::format("{}{}.{:04}", steps < 0 ? "-" : "", std::abs(steps) / 10000, std::abs(steps) % 10000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "%";
}
std::string percent(double share) { return percent_of_steps(percent_steps(share)); }

std::string open_svg(const Frame& f, const std::vector<Paint>& paints) {
  if (!is_name(f.id))
    throw Error(Blame::bug, cat("a picture's id is '", f.id, "', must be letters, digits, hyphens"));
  const std::string title = xml_text(f.title);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"", f.id, "\" width=\"", kPictureWidth,
             "\" height=\"", f.height, "\" role=\"img\" aria-labelledby=\"", f.id, "-title ", f.id,
             "-desc\">\n<title id=\"", f.id, "-title\">", title, "</title>\n<desc id=\"", f.id, "-desc\">",
             xml_text(f.description), "</desc>\n<style>\n", style(f, paints),
             "</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
             "<text class=\"title\" x=\"0\" y=\"18\">", title, "</text>\n");
}

std::string x_axis(const std::vector<Tick>& list, int y) {
  std::string out = cat("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", y, "\" y2=\"", y, "\"/>\n");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string x = percent(list[i].at);
    // On a narrow picture every third mark has room for its words.
    out += cat("<line class=\"grid\" x1=\"", x, "\" x2=\"", x, "\" y1=\"", y, "\" y2=\"", y + 5,
               "\"/><text class=\"t s", i % 3 == 0 ? "" : " wide", "\" x=\"", x, "\" y=\"", y + 18,
               "\" text-anchor=\"", anchor(list[i].at), "\">", xml_text(list[i].text), "</text>\n");
  }
  return out;
}

std::string legend(const std::vector<LegendEntry>& entries, int y) {
  return cat("<g class=\"wide\">\n", legend_rows(entries, y, 4), "</g>\n<g class=\"slim\">\n",
             legend_rows(entries, y, 2), "</g>\n");
}

int legend_height(std::size_t entries) { return int((entries + 1) / 2) * 20; }

}  // namespace zt::plan
