// What the resolved recipes of several runs have not in common.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/page.h"
#include "report/run.h"

namespace zt::report {

// "train.max_steps" -> "500", from the text of a run's recipe.yaml. Empty for a text that is no YAML.
std::map<std::string, std::string> recipe_values(const std::string& text);

// A row for each key in which the runs differ, a column for each run.
plan::PageTable recipe_differences(const std::vector<Run>& runs);

}  // namespace zt::report
