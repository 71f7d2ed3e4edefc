#include "train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace zt::train {

using Json = nlohmann::ordered_json;

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string json_line(const StepMetrics& m) {
  Json line;
  line["step"] = m.step;
  line["epoch"] = m.epoch;
  line["loss"] = number_or_null(m.loss);
  line["supervised_tokens"] = m.supervised_tokens;
  line["tokens"] = m.tokens;
  line["slots"] = m.slots;
  line["learning_rate"] = m.learning_rate;
  line["grad_norm"] = number_or_null(m.grad_norm);
  line["loss_scale"] = m.loss_scale;
  line["skipped"] = m.skipped;
  line["step_seconds"] = m.step_seconds;
  line["tokens_per_second"] = m.tokens_per_second;
  line["mfu"] = m.mfu;
  line["cost_imbalance"] = m.cost_imbalance;
  line["exposed_comm_seconds"] = m.exposed_comm_seconds;
  line["peak_bytes"] = m.peak_bytes;
  line["planned_bytes"] = m.planned_bytes;
  line["planned_process_bytes"] = m.planned_process_bytes;
  line["process_peak_bytes"] = m.process_peak_bytes;
  line["traffic"] = {{"all_gather", m.traffic.all_gather},
                     {"reduce_scatter", m.traffic.reduce_scatter},
                     {"all_reduce", m.traffic.all_reduce}};
  line["batch_hash"] = m.batch_hash;
  return line.dump();
}

// Whole lines of steps up to `last_step`; a killed run may have left half a line at the end.
static std::string lines_until(const std::string& text, std::int64_t last_step) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    const auto step = json.is_object() ? json.find("step") : json.end();
    const bool told = json.is_object() && step != json.end() && step->is_number_integer();
    if (told && step->get<std::int64_t>() <= last_step) kept += line + "\n";
  }
  return kept;
}

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  go_back_to(last_step);
}

void MetricsLog::go_back_to(std::int64_t last_step) {
  out_.close();
  if (std::filesystem::exists(path_))
    write_file(path_, lines_until(read_text_file(path_, Blame::machine), last_step));
  out_.open(path_, std::ios::app);
  write("");
}

void MetricsLog::step(const StepMetrics& metrics) { write(json_line(metrics) + "\n"); }

void MetricsLog::evaluation(std::int64_t step, double loss, std::int64_t tokens) {
  Json line;
  line["step"] = step;
  line["eval_loss"] = number_or_null(loss);
  line["eval_tokens"] = tokens;
  write(line.dump() + "\n");
}

// Flushed line by line, so that a killed run keeps what it measured.
void MetricsLog::write(const std::string& line) {
  out_ << line << std::flush;
  if (!out_)
    throw Error(Blame::machine, cat("cannot write ", path_.string(), ": ", std::strerror(errno)),
                "is there space on the disk?");
}

}  // namespace zt::train
