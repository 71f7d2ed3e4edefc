#include "checkpoint/state.h"

#include "checkpoint/fields.h"
#include "checkpoint/state_reader.h"
#include "tensor/dtype.h"

namespace zt::checkpoint {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {
constexpr int kMaxRanks = 99'999;
constexpr int kMaxStage = 3;
}  // namespace

ordered_json to_json(const RunState& s) {
  return {
      {"run_id", s.run_id},
      {"step", s.step},
      {"updates", s.updates},
      {"samples", s.samples},
      {"seed", s.seed},
      {"loss_scale",
       {{"scale", s.loss_scale.scale},
        {"good_steps", s.loss_scale.good_steps},
        {"hysteresis", s.loss_scale.hysteresis}}},
      {"learning_rate",
       {{"schedule", s.learning_rate_schedule}, {"parameters", ordered_json(s.learning_rate)}}},
      {"ranks", s.ranks},
      {"stage", s.stage},
      {"dtype", s.dtype},
      {"build", s.build},
      {"fingerprint", s.fingerprint},
      {"data_digest", s.data_digest},
      {"tokenizer_digest", s.tokenizer_digest},
      {"model_config", ordered_json(s.model_config)},
      {"recipe", s.recipe},
  };
}

RunState read_state(const json& object, const std::string& where, exchange::Faults& faults) {
  RunState s;
  Fields top(object, where, faults);
  top.text("run_id", &s.run_id);
  top.integer("step", &s.step);
  top.integer("updates", &s.updates);
  top.integer("samples", &s.samples);
  top.integer("seed", &s.seed, std::numeric_limits<std::int64_t>::min());
  if (const json* const scale = top.member("loss_scale")) {
    Fields fields(*scale, where + ".loss_scale", faults);
    fields.positive("scale", &s.loss_scale.scale);
    fields.integer("good_steps", &s.loss_scale.good_steps);
    fields.integer("hysteresis", &s.loss_scale.hysteresis);
    fields.no_others();
  }
  if (const json* const rate = top.member("learning_rate")) {
    Fields fields(*rate, where + ".learning_rate", faults);
    fields.text("schedule", &s.learning_rate_schedule);
    fields.object("parameters", &s.learning_rate);
    fields.no_others();
  }
  top.integer("ranks", &s.ranks, 1, kMaxRanks);
  top.integer("stage", &s.stage, 0, kMaxStage);
  top.text("dtype", &s.dtype);
  Dtype known;
  if (!s.dtype.empty() && !parse_dtype(s.dtype, &known))
    faults.add(where + ".dtype is unknown: " + exchange::shown(s.dtype));
  top.text("build", &s.build);
  top.text("fingerprint", &s.fingerprint);
  top.text("data_digest", &s.data_digest);
  top.text("tokenizer_digest", &s.tokenizer_digest);
  top.object("model_config", &s.model_config);
  top.text("recipe", &s.recipe);
  top.no_others();
  return s;
}

RunState state_from_json(const json& object, const std::string& where) {
  exchange::Faults faults;
  RunState state = read_state(object, where, faults);
  faults.throw_if_any(where + " is not the state of a run", "");
  return state;
}

}  // namespace zt::checkpoint
