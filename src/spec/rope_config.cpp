#include "spec/rope_config.h"

#include <array>

#include "base/text.h"

namespace zt::spec {
namespace {

using nlohmann::json;

constexpr double kLargestTheta = 1e15, kLargestFactor = 1e6;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;
constexpr std::array kScalings = {Rope::Scaling::none, Rope::Scaling::linear, Rope::Scaling::dynamic,
                                  Rope::Scaling::llama3, Rope::Scaling::yarn};

std::optional<Rope::Scaling> scaling_named(const std::string& word) {
  for (const Rope::Scaling scaling : kScalings)
    if (word == name(scaling)) return scaling;
  return std::nullopt;
}

// "type" is the old name of "rope_type"; files from between carry both.
Rope::Scaling read_type(ConfigReader& reader) {
  const std::optional<std::string> now = reader.word("rope_type"), before = reader.word("type");
  if (now && before && *now != *before)
    reader.fault("rope_type", cat("is \"", *now, "\" but type is \"", *before, "\"; they mean the same"));
  const std::string word = now ? *now : before.value_or("default");
  if (const auto scaling = scaling_named(word)) return *scaling;
  reader.fault(
      now ? "rope_type" : "type",
      cat(shown(json(word)), " is not supported; these are: default, linear, dynamic, llama3, yarn"));
  return Rope::Scaling::none;
}

double required(ConfigReader& reader, const std::string& key, double low, double high) {
  if (!reader.has(key)) reader.fault(key, "is missing");
  return reader.number(key, low, high).value_or(low);
}

void read_llama3(ConfigReader& reader, Rope& rope) {
  rope.low_freq_factor = required(reader, "low_freq_factor", 1e-6, kLargestFactor);
  rope.high_freq_factor = required(reader, "high_freq_factor", 1e-6, kLargestFactor);
  if (reader.has("low_freq_factor") && reader.has("high_freq_factor") &&
      rope.high_freq_factor <= rope.low_freq_factor)
    reader.fault("high_freq_factor", cat("must be above low_freq_factor; they are ", rope.high_freq_factor,
                                         " and ", rope.low_freq_factor));
}

void read_yarn(ConfigReader& reader, Rope& rope) {
  rope.beta_fast = reader.number("beta_fast", 1e-6, kLargestFactor).value_or(rope.beta_fast);
  rope.beta_slow = reader.number("beta_slow", 1e-6, kLargestFactor).value_or(rope.beta_slow);
  if (rope.beta_fast < rope.beta_slow)
    reader.fault("beta_fast",
                 cat("must not be below beta_slow; they are ", rope.beta_fast, " and ", rope.beta_slow));
  rope.attention_factor = reader.number("attention_factor", 1e-6, kLargestFactor);
  rope.mscale = reader.number("mscale", 0.0, kLargestFactor);
  rope.mscale_all_dim = reader.number("mscale_all_dim", 0.0, kLargestFactor);
  rope.truncate = reader.flag("truncate").value_or(true);
}

void read_scaling(ConfigReader& reader, int max_positions, Rope& rope) {
  rope.scaling = read_type(reader);
  if (const auto part = reader.number("partial_rotary_factor", 0.0, 1.0); part && *part != 1.0)
    reader.fault("partial_rotary_factor", "below 1 is not supported");
  if (rope.scaling == Rope::Scaling::none) return;
  rope.factor = required(reader, "factor", 1.0, kLargestFactor);
  const bool knows_original = rope.scaling == Rope::Scaling::llama3 || rope.scaling == Rope::Scaling::yarn;
  if (knows_original)
    rope.original_positions =
        int(reader.integer("original_max_position_embeddings", 1, kMostPositions).value_or(max_positions));
  if (rope.scaling == Rope::Scaling::llama3) read_llama3(reader, rope);
  if (rope.scaling == Rope::Scaling::yarn) read_yarn(reader, rope);
}

// Frequencies by kind of layer (rope_parameters: {full_attention: {...}, ...}) belong to other models.
bool nested_by_layer(const json& object) {
  for (const auto& value : object)
    if (value.is_object()) return true;
  return false;
}

std::optional<Rope> read_object(const std::string& key, ConfigReader& outer, double theta, int max_positions,
                                Problems& problems) {
  const json* object = outer.find(key);
  if (object == nullptr || (object->is_object() && object->empty())) return std::nullopt;
  if (!object->is_object()) {
    outer.fault(key, cat("must be an object, is ", shown(*object)));
    return std::nullopt;
  }
  if (nested_by_layer(*object)) {
    outer.fault(key, "holds one rotary embedding for each kind of layer, which is not supported");
    return std::nullopt;
  }
  Rope rope;
  rope.original_positions = max_positions;
  ConfigReader reader(*object, key + ".", problems);
  rope.theta = reader.number("rope_theta", 1.0 + 1e-6, kLargestTheta).value_or(theta);
  read_scaling(reader, max_positions, rope);
  return rope;
}

}  // namespace

Rope read_rope(ConfigReader& reader, int max_positions, int head_size, Problems& problems) {
  Rope rope;
  rope.original_positions = max_positions;
  const std::optional<double> theta = reader.number("rope_theta", 1.0 + 1e-6, kLargestTheta);
  rope.theta = theta.value_or(rope.theta);
  const auto scaling = read_object("rope_scaling", reader, rope.theta, max_positions, problems);
  const auto parameters = read_object("rope_parameters", reader, rope.theta, max_positions, problems);
  if (scaling && parameters && !(*scaling == *parameters))
    reader.fault("rope_scaling", "and rope_parameters disagree; keep one of them");
  const Rope chosen = scaling ? *scaling : parameters.value_or(rope);
  if (theta && chosen.theta != *theta)
    reader.fault("rope_theta", cat("is ", *theta, " at the top but ", chosen.theta, " inside ",
                                   scaling ? "rope_scaling" : "rope_parameters"));
  if (chosen.scaling == Rope::Scaling::dynamic && head_size == 2)
    problems.add("rope_scaling of type dynamic needs a head size above 2");
  return chosen;
}

}  // namespace zt::spec
