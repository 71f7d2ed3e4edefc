// A plan as one self-contained HTML page.
#pragma once

#include <string>
#include <vector>

namespace zt::plan {

// All texts are plain; the page escapes them.
struct PageTable {
  std::string title;                           // above the table; empty: none
  std::vector<std::string> columns;            // flush right where all cells begin with a digit or sign
  std::vector<std::vector<std::string>> rows;  // of as many cells as columns; shorter ones are filled up
  bool last_is_total = false;                  // the last row is set off as the sum
  std::string note;                            // below the table; empty: none
};

struct PageSection {
  std::string title;
  std::vector<std::string> paragraphs;
  std::vector<PageTable> tables;
  std::string svg;      // a picture of memory_svg or gantt_svg, taken as it is; empty: none
  std::string caption;  // below the picture
  std::string html;     // behind the paragraphs, taken as it is; empty: none
};

struct PageFact {
  std::string name, value;  // "Step time", "1.23 s"
};

struct PlanPage {
  std::string title, subtitle;
  std::string verdict;  // in a frame on top: "fits: 34.3 of 80.0 GiB"; empty: none
  bool good = true;     // the frame's mark: yes or no
  std::vector<PageFact> facts;
  std::vector<PageSection> sections;
  std::string footer;  // where the numbers come from
  std::string style;   // more rules
  std::string script;  // the page's only one; empty: none. The page must be complete without it
};

// No scripts but its own, no links, nothing from elsewhere: a mail attachment or an offline laptop shows it as it is, and a policy
// of `default-src 'none'; style-src 'unsafe-inline'` (which the page asks for itself, with its own script where it has one) lets it. Readable from 360 pixels
// on, light and dark, and on paper.
std::string plan_page(const PlanPage& page);

}  // namespace zt::plan
