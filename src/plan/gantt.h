// Which lane did what when in a simulated step, as an SVG.
#pragma once

#include <string>

#include "plan/simulator.h"

namespace zt::plan {

struct GanttPicture {
  std::string title = "One step, lane by lane";
  std::string id = "gantt";  // of its elements: differs between the pictures of one page
};

// A file of its own, which also may stand inside an HTML page (see memory_svg). A row for each lane that has ops and
// one for the critical path; a rectangle for each op, coloured by kind, whose <title> says name, length, start and what
// it waited for; hatched where the compute lane stood still.
//
// The whole step is on top. What is narrower than 1/1,200 of it is gathered there: inside each such column, ops of one
// kind become one rectangle of their summed length. Where that happens two windows follow, each of about 40 ops:
//   - the first forwards of the first micro-batch;
//   - around the longest wait, where the compute lane waits at all (this one alone, where it is in the first).
// So the file stays below 3 MB whatever the length of the list. Error(bug) when list and simulation differ in length.
std::string gantt_svg(const schedule::Schedule& list, const Simulation& simulation,
                      const GanttPicture& picture = {});

}  // namespace zt::plan
