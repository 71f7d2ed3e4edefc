// What the pictures share: escaped text, axes, and the frame of an SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/palette.h"

namespace zt::plan {

// Text for XML and HTML, between tags and inside quotes. Bytes that are no UTF-8 and characters that XML 1.0 forbids
// become U+FFFD, for one of them would make the whole file unreadable.
std::string xml_text(std::string_view text);

// "3.10 ms", "1.23 s", "12m 03s": three digits.
std::string time_text(double seconds);

// A mark on an axis from 0 to 1.
struct Tick {
  double at = 0;
  std::string text;
};
// At most `most` + 1 marks at round values.
std::vector<Tick> time_ticks(double from, double to, int most);
std::vector<Tick> byte_ticks(double top, int most);
std::vector<Tick> count_ticks(double count, int most);

// A share of the width: "12.3456%".
std::string percent(double share);
// `share` in the steps that percent() prints, so that neighbours meet exactly.
std::int64_t percent_steps(double share);
std::string percent_of_steps(std::int64_t steps);

struct Frame {
  std::string id, title, description;
  int height = 0;
  std::string style;   // more rules; every selector begins with #id
  std::string dark;    // rules on a dark ground
  std::string narrow;  // rules where there are 640 pixels or less
};
inline constexpr int kPictureWidth = 1200;  // pixels, where nobody says otherwise

// From <svg> to the title, which takes the first 28 pixels; "</svg>\n" closes it. Error(bug) for an id that is
// not of letters, digits and hyphens. Rules for `paints` and for these classes are in it:
//   bg ground   t small text   s soft text   grid lines   halo text that stands on areas
//   wide, slim  only above, or up to, 640 pixels of width
std::string open_svg(const Frame& frame, const std::vector<Paint>& paints);

// A horizontal axis at y: a line, marks and their words below; takes 24 pixels.
std::string x_axis(const std::vector<Tick>& ticks, int y);

struct LegendEntry {
  std::string css_class, text;
};
// Rows of four (wide) or two (slim) entries from y down.
std::string legend(const std::vector<LegendEntry>& entries, int y);
int legend_height(std::size_t entries);

}  // namespace zt::plan
