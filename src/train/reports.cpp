#include "train/reports.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace zt::train {

// The members of a run's description as a table; what they consist of follows them, a row each.
static void add_rows(const nlohmann::ordered_json& value, const std::string& path, std::string* table) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items())
      add_rows(member, path.empty() ? name : path + "." + name, table);
    return;
  }
  const auto word = [](const nlohmann::ordered_json& one) {
    return one.is_string() ? one.get<std::string>()
                           : one.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::string text;
  if (value.is_array())
    for (const auto& one : value) text += (text.empty() ? "" : "; ") + word(one);
  else
    text = word(value);
  for (char& c : text) c = c == '\n' || c == '|' ? ' ' : c;
  *table += cat("| ", path, " | ", text, " |\n");
}

static std::string markdown_of(const nlohmann::ordered_json& run) {
  std::string table = "| what | value |\n|---|---|\n";
  add_rows(run, "", &table);
  return table;
}

Reports::Reports(const std::filesystem::path& folder, const recipe::Recipe& recipe, std::int64_t steps,
                 std::int64_t first_step)
    : folder_(folder),
      log_every_(recipe.train.log_every),
      steps_(steps),
      metrics_(folder / "metrics.jsonl", first_step),
      events_(folder / "events.jsonl") {
  progress_.emplace(recipe.logging.progress, steps, first_step);
  // Where nothing has been measured, what event files hold is of an attempt that was set aside.
  const bool afresh = std::filesystem::file_size(folder / "metrics.jsonl") == 0;
  if (recipe.logging.tensorboard) tensorboard_.emplace(folder / "tensorboard", afresh ? -1 : first_step);
}

void Reports::describe(const nlohmann::ordered_json& run) {
  write_file(folder_ / "run.json",
             run.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (tensorboard_) tensorboard_->text("run", markdown_of(run));
}

void Reports::step(const StepMetrics& m) {
  if (m.step % log_every_ == 0 || m.step == steps_) {
    metrics_.step(m);
    if (tensorboard_) tensorboard_->step(m);
  }
  progress_->step(m);
}

void Reports::evaluation(std::int64_t step, double loss, std::int64_t tokens) {
  metrics_.evaluation(step, loss, tokens);
  if (tensorboard_) tensorboard_->evaluation(step, loss, tokens);
  progress_->evaluation(step, loss, tokens);
}

void Reports::trace(const schedule::Schedule& list, const exec::StepTrace& trace, std::int64_t step,
                    int ranks) {
  try {
    write_file(folder_ / "trace.json", exec::trace_json(list, trace, step, 0, ranks));
  } catch (const Error& e) {
    log::warn(cat("the trace of step ", step, " is lost: ", e.problem()));
  }
}

void Reports::go_back_to(std::int64_t step, std::int64_t steps) {
  steps_ = steps;
  metrics_.go_back_to(step);
  if (tensorboard_) tensorboard_->go_back_to(step);
}

}  // namespace zt::train
