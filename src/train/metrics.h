// What a run measures, one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "comm/communicator.h"

namespace zt::train {

// One optimizer step. Loss and counts are of the step's global batch, before the update.
struct StepMetrics {
  std::int64_t step = 0;
  double epoch = 0;                    // passes over the training rows, this step included
  double loss = 0;                     // sum of losses / supervised tokens
  std::int64_t supervised_tokens = 0;  // positions with a target
  std::int64_t tokens = 0;             // real ids
  std::int64_t slots = 0;              // room for ids: rows x length
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  double loss_scale = 1;
  bool skipped = false;  // nothing was updated: the step was not finite
  double step_seconds = 0;
  double tokens_per_second = 0;     // real ids
  double mfu = 0;                   // share of the measured product rate
  double cost_imbalance = 1;        // planned time of the slowest ranks over that of even ones
  double exposed_comm_seconds = 0;  // computation stood still for communication; rank 0
  std::int64_t peak_bytes = 0;      // held by rank 0: arenas and communication buffers
  std::int64_t planned_bytes = 0;
  std::int64_t planned_process_bytes = 0;  // of the process of rank 0, with what it holds beside the plan
  std::int64_t process_peak_bytes = 0;     // what the system counted for the process of rank 0 until now
  comm::Traffic traffic;                   // sent by rank 0 in this step
  std::string batch_hash;                  // of all ids of the step in sample order
};

class MetricsLog {
 public:
  // Appends. A resumed run drops the lines of steps after `last_step` first: it will measure them again. Throws
  // Error(machine) when the file can't be made.
  explicit MetricsLog(const std::filesystem::path& path, std::int64_t last_step = 0);
  void step(const StepMetrics& metrics);
  void evaluation(std::int64_t step, double loss, std::int64_t tokens);
  // Drops the lines of steps after `last_step`, which will be measured again.
  void go_back_to(std::int64_t last_step);

 private:
  void write(const std::string& line);
  std::filesystem::path path_;
  std::ofstream out_;
};

std::string json_line(const StepMetrics& metrics);
// JSON has no word for "not a number": null says it.
nlohmann::ordered_json number_or_null(double value);

}  // namespace zt::train
