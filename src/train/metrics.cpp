#include "train/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
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

static bool is_of_step_until(const std::string& line, std::int64_t last_step) {
  const Json json = Json::parse(line, nullptr, false);
  const auto step = json.is_object() ? json.find("step") : json.end();
  return json.is_object() && step != json.end() && step->is_number_integer() &&
         step->get<std::int64_t>() <= last_step;
}

// The bytes up to the end of the last whole line of a step up to `last_step`; a killed run may have left half a line. Looked
// for from the end, as a long run's file has hundreds of megabytes.
static std::uintmax_t bytes_until(const std::filesystem::path& path, std::int64_t last_step) {
  constexpr std::uintmax_t kBlock = 1 << 16;
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t begin = std::filesystem::file_size(path);
  std::string text;  // of the file, from `begin` on
  const auto read_more = [&] {
    // As much as there is already, so that what has no lines is not read again and again.
    const std::uintmax_t count = std::min(begin, std::max<std::uintmax_t>(kBlock, text.size()));
    begin -= count;
    std::string block(count, '\0');
    if (!in.seekg(static_cast<std::streamoff>(begin)) ||
        !in.read(block.data(), static_cast<std::streamsize>(count)))
      throw Error(Blame::machine, cat("cannot read ", path.string(), ": ", std::strerror(errno)));
    text.insert(0, block);
  };
  while (true) {
    while (begin > 0 && std::ranges::count(text, '\n') < 2) read_more();
    const std::size_t end = text.rfind('\n');
    if (end == std::string::npos) return 0;
    const std::size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    if (is_of_step_until(text.substr(start, end - start), last_step)) return begin + end + 1;
    text.resize(start);
    if (start == 0) return 0;
  }
}

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  go_back_to(last_step);
}

void MetricsLog::go_back_to(std::int64_t last_step) {
  out_.close();
  if (std::filesystem::exists(path_)) std::filesystem::resize_file(path_, bytes_until(path_, last_step));
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
