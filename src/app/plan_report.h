// All that `zerotrain plan` knows about a recipe's step, and the forms it is told in.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/fit.h"
#include "plan/memory_stack.h"
#include "plan/search.h"
#include "plan/step_time.h"

namespace zt::app {

struct PlanReport {
  recipe::Recipe recipe;
  spec::ModelSpec model;
  plan::StepShape shape;
  plan::StepPlan plan;
  std::optional<plan::Cluster> cluster;     // a device was named, or this machine is calibrated
  std::string age;                          // of a calibration: "3 days old"
  std::string no_time;                      // why there is no cluster, and what to do
  std::int64_t available = -1;              // bytes of a rank; -1: unknown
  std::int64_t needed = 0;                  // that are held against it
  std::optional<plan::NearestFit> nearest;  // where it does not fit
  std::optional<plan::StepTime> time;
  std::vector<plan::Candidate> advice;  // single changes that make the step faster
  std::optional<plan::Search> search;
  std::string estimates;  // other tools' conventions; "": not asked for

  bool fits() const { return available < 0 || needed <= available; }
  // "fits: 34.30 GiB of 80.00 GiB a rank may use", or by how much it does not; "" where nobody knows.
  std::string verdict() const;
};

// What fills the memory while the training list runs.
plan::MemoryStack memory_of(const PlanReport& report);

std::string text(const PlanReport& report);
// Documented in docs/formats/plan.md; keys never change their meaning.
nlohmann::ordered_json json(const PlanReport& report);
// A self-contained HTML page, and its picture of memory alone.
std::string page(const PlanReport& report);
std::string picture(const PlanReport& report);

}  // namespace zt::app
