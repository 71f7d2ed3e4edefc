// Where a run stands, apart from its tensors.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zt::checkpoint {

struct LossScaleState {
  double scale = 1.0;
  std::int64_t good_steps = 0;  // steps since the scale last changed
  std::int64_t hysteresis = 0;  // overflows still forgiven before it shrinks
  bool operator==(const LossScaleState&) const = default;
};

// Samples [first, first + count) of the data order.
struct SampleRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const SampleRange&) const = default;
};

// Steps that were skipped or rewound because of their numbers, and what the next ones are compared with.
struct BadStepState {
  std::int64_t count = 0;
  std::vector<double> losses;  // of the last good steps
  bool operator==(const BadStepState&) const = default;
};

// Everything a run needs to go on beside its tensors. Nothing is optional. The data position is one number,
// and what a run leaves out of the order: the order of samples is a function of (seed, sample).
struct RunState {
  std::string run_id;                 // the run that wrote it; carried on when it is resumed
  std::int64_t step = 0;              // steps done
  std::int64_t updates = 0;           // Adam's t: steps done less those that were skipped
  std::int64_t samples = 0;           // samples of the data order trained on so far, not counting
  std::vector<SampleRange> left_out;  // those it leaves out, rising
  std::int64_t seed = 0;
  LossScaleState loss_scale;
  BadStepState bad_steps;
  std::string learning_rate_schedule;                       // its name; the rate is a function of the step
  nlohmann::json learning_rate = nlohmann::json::object();  // its parameters
  std::string recipe;                                       // resolved, as YAML
  std::string build;
  std::string data_digest, tokenizer_digest;
  nlohmann::json model_config = nlohmann::json::object();  // Hugging Face's config.json
  std::string fingerprint;                                 // of the step list
  int ranks = 1;
  int stage = 0;      // of ZeRO
  std::string dtype;  // of the run's weights: "float32", "bfloat16", "float16"
  // Where it was written: the hosts, and the batch system's job with its restarts; for people.
  nlohmann::json place = nlohmann::json::object();
  bool operator==(const RunState&) const = default;
};

nlohmann::ordered_json to_json(const RunState& state);
// Strict: a missing, unknown or wrongly typed member, a number out of its range. All faults at once, as
// Error(model) that begins with `where`.
RunState state_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace zt::checkpoint
