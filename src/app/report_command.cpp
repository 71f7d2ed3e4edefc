// zerotrain report: run folders as one page.
#include <iostream>

#include "app/commands.h"
#include "app/picture_file.h"
#include "base/error.h"
#include "base/text.h"
#include "report/report_page.h"

namespace zt::app {

int report(const ReportArgs& args) {
  if (args.folders.size() > report::kMostRuns)
    throw Error(Blame::usage, cat(args.folders.size(), " folders were named, and a report lays at most ",
                                  report::kMostRuns, " runs over each other"));
  std::vector<report::Run> runs;
  Problems problems;
  Blame blame = Blame::usage;
  for (const std::string& folder : args.folders) {
    try {
      runs.push_back(report::read_run(folder));
    } catch (const Error& e) {
      if (problems.empty()) blame = e.blame();
      problems.add(e.hint().empty() ? e.problem() : cat(e.problem(), "; ", e.hint()));
    }
  }
  problems.throw_if_any(blame, "no report:");
  report::name_apart(&runs);
  const std::string page = report_page(runs);
  if (args.to.empty()) {
    std::cout << page;
  } else {
    write_picture(args.to, page);
  }
  return 0;
}

}  // namespace zt::app
