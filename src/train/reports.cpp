#include "train/reports.h"

#include "base/file.h"

namespace zt::train {

Reports::Reports(const std::filesystem::path& folder, const recipe::Recipe& recipe, std::int64_t steps,
                 std::int64_t first_step)
    : folder_(folder),
      log_every_(recipe.train.log_every),
      steps_(steps),
      metrics_(folder / "metrics.jsonl", first_step),
      events_(folder / "events.jsonl") {
  progress_.emplace(recipe.logging.progress, steps, first_step);
}

void Reports::describe(const nlohmann::ordered_json& run) {
  write_file(folder_ / "run.json",
             run.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void Reports::step(const StepMetrics& m) {
  if (m.step % log_every_ == 0 || m.step == steps_) metrics_.step(m);
  progress_->step(m);
}

void Reports::evaluation(std::int64_t step, double loss, std::int64_t tokens) {
  metrics_.evaluation(step, loss, tokens);
  progress_->evaluation(step, loss, tokens);
}

void Reports::go_back_to(std::int64_t step) { metrics_.go_back_to(step); }

}  // namespace zt::train
