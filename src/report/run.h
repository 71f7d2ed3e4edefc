// What a run folder tells of its run, read for a report. Everything but metrics.jsonl may be missing or broken; then
// the report says so.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/trace.h"
#include "report/curve.h"

namespace zt::report {

// What is drawn over steps. The words of metrics.jsonl, in its order.
enum class Measure {
  loss,
  learning_rate,
  grad_norm,
  loss_scale,
  skipped,
  step_seconds,
  tokens_per_second,
  mfu,
  cost_imbalance,
  exposed_comm_seconds,
  peak_bytes,
  planned_bytes,
  planned_process_bytes,
  process_peak_bytes,
  eval_loss
};
inline constexpr int kMeasures = static_cast<int>(Measure::eval_loss) + 1;
const char* name(Measure measure);

struct Event {
  std::string time, kind, text;
  std::int64_t step = 0;
};

// Metrics of an attempt that ended before its first checkpoint.
struct SetAside {
  std::string file;
  std::int64_t lines = 0;
  std::int64_t last_step = 0;
  double last_loss = 0;  // not a number: none was measured
};

struct Run {
  std::filesystem::path folder;
  std::string name;  // for legends; unlike that of the other runs of a report
  std::array<Curve, kMeasures> curves;
  std::int64_t steps_logged = 0, evaluations = 0, broken_lines = 0;
  double tokens = 0, seconds = 0;  // of the steps logged
  double best_eval = 0;
  std::int64_t best_eval_step = -1;
  bool half_a_line = false;  // at the end: a run is writing, or was killed
  std::vector<SetAside> set_aside;
  std::vector<Event> events;  // the first and the last ones, where there are very many
  std::int64_t events_in_all = 0;
  std::map<std::string, std::int64_t> event_counts;  // of all of them, by kind
  nlohmann::ordered_json facts;                      // run.json; null where there is none
  std::string recipe;                                // recipe.yaml; empty where there is none
  std::optional<exec::PlayedStep> trace;
  std::vector<std::string> notes;  // what could not be read, and why

  const Curve& curve(Measure measure) const { return curves[static_cast<std::size_t>(measure)]; }
};

// Throws Error(usage) when there is no such folder, Error(data) when it holds no run, or one that has measured nothing.
Run read_run(const std::filesystem::path& folder);

// Names by which a legend can tell the runs apart: run.name where they differ in it, else the folders as given.
void name_apart(std::vector<Run>* runs);

}  // namespace zt::report
