#include "checkpoint/state.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/fields.h"
#include "checkpoint/state_reader.h"
#include "tensor/dtype.h"

namespace zt::checkpoint {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {
constexpr int kMaxRanks = 99'999;
constexpr int kMaxStage = 3;
constexpr std::int64_t kMaxSample = std::int64_t{1} << 62;

ordered_json ranges_json(const std::vector<SampleRange>& ranges) {
  ordered_json list = ordered_json::array();
  for (const SampleRange& range : ranges) list.push_back({{"first", range.first}, {"count", range.count}});
  return list;
}

// Members since version 2 of the manifest: an older one has none of what they say.
void read_left_out(const json& list, const std::string& where, std::vector<SampleRange>* ranges,
                   exchange::Faults& faults) {
  if (!list.is_array()) return faults.add(where + " must be a list");
  std::int64_t free = 0;  // the first number that the next range may begin with
  for (const json& item : list) {
    SampleRange range;
    Fields fields(item, where + "[]", faults);
    fields.integer("first", &range.first, free, kMaxSample - 1);
    fields.integer("count", &range.count, 1, kMaxSample - range.first);
    fields.no_others();
    free = range.first + range.count + 1;
    ranges->push_back(range);
  }
}

void read_bad_steps(const json& object, const std::string& where, BadStepState* state,
                    exchange::Faults& faults) {
  Fields fields(object, where, faults);
  fields.integer("count", &state->count);
  const json* const losses = fields.member("losses");
  fields.no_others();
  if (losses == nullptr) return;
  const auto number = [](const json& loss) { return loss.is_number() && std::isfinite(loss.get<double>()); };
  if (!losses->is_array() || !std::ranges::all_of(*losses, number))
    return faults.add(where + ".losses must be a list of numbers");
  state->losses = losses->get<std::vector<double>>();
}

}  // namespace

ordered_json to_json(const RunState& s) {
  return {
      {"run_id", s.run_id},
      {"step", s.step},
      {"updates", s.updates},
      {"samples", s.samples},
      {"left_out", ranges_json(s.left_out)},
      {"seed", s.seed},
      {"loss_scale",
       {{"scale", s.loss_scale.scale},
        {"good_steps", s.loss_scale.good_steps},
        {"hysteresis", s.loss_scale.hysteresis}}},
      {"bad_steps", {{"count", s.bad_steps.count}, {"losses", s.bad_steps.losses}}},
      {"learning_rate",
       {{"schedule", s.learning_rate_schedule}, {"parameters", ordered_json(s.learning_rate)}}},
      {"ranks", s.ranks},
      {"stage", s.stage},
      {"dtype", s.dtype},
      {"place", ordered_json(s.place)},
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
  if (const json* const list = top.member("left_out", true))
    read_left_out(*list, where + ".left_out", &s.left_out, faults);
  if (const json* const bad = top.member("bad_steps", true))
    read_bad_steps(*bad, where + ".bad_steps", &s.bad_steps, faults);
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
  if (top.member("place", true) != nullptr) top.object("place", &s.place);
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
