#include "train/planned_time.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "measure/checkup.h"

namespace zt::train {

std::optional<plan::StepTime> planned_time(const spec::ModelSpec& model, const plan::StepShape& shape,
                                           const plan::StepPlan& plan) {
  const std::string path = plan::calibration_path();
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const plan::Cluster cluster = plan::open_cluster(path);
    if (cluster.node_for(shape.partition.ranks).ranks != shape.partition.ranks) return std::nullopt;
    return step_time(model, shape, plan, cluster);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string planned_time_text(const plan::StepTime& time) {
  plan::Cluster cluster;
  cluster.calibrated = time.calibrated;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return cat("planned: ", human_seconds(time.seconds), " a step, ",
             with_commas(std::llround(time.tokens_per_second)), " tokens/s, by this machine's calibration, ",
             measure::age_text(cluster, now));
}

}  // namespace zt::train
