#include "recipe/checks.h"

#include <filesystem>

#include "base/text.h"
#include "recipe/words.h"

namespace zt::recipe {
namespace {

struct Checker {
  const Recipe& recipe;
  const std::map<std::string, Origin>& origins;
  Faults& faults;

  Origin origin(const std::string& path) const {
    const auto found = origins.find(path);
    return found == origins.end() ? Origin{} : found->second;
  }
  bool given(const std::string& path) const { return origins.count(path) > 0; }
  bool sound(const std::vector<std::string>& paths) const {
    for (const std::string& path : paths)
      if (!faults.sound(path)) return false;
    return true;
  }
  void fault(const std::string& path, const std::string& text) const { faults.add(origin(path), path, text); }
};

void check_run(const Checker& c) {
  if (c.sound({"run.name"}) && c.recipe.run.name.find('/') != std::string::npos)
    c.fault("run.name",
            cat("run.name must not contain '/', is '", c.recipe.run.name, "'; use run.output_dir"));
}

void check_model(const Checker& c) {
  const Model& model = c.recipe.model;
  if (!c.sound({"model.base", "model.config"})) return;
  const bool config = !model.config.is_null();
  if (model.base && config)
    c.fault("model.config", "model.config and model.base exclude each other: a new model or a trained one");
  if (!model.base && !config)
    c.fault("model", "model needs base (a Hugging Face folder) or config (a new model's shape)");
  if (config && (!model.config.contains("model_type") || !model.config["model_type"].is_string()))
    c.fault("model.config", "model.config needs model_type, such as gpt2 or llama");
}

// A longer row than the model has positions can't be computed. Only the config's own names are known here.
void check_positions(const Checker& c) {
  const nlohmann::json& config = c.recipe.model.config;
  if (!config.is_object() || !c.sound({"data.sequence_length", "model.config"})) return;
  for (const char* name : {"max_position_embeddings", "n_positions"}) {
    if (!config.contains(name) || !config[name].is_number_integer()) continue;
    const auto positions = config[name].get<std::int64_t>();
    if (c.recipe.data.sequence_length > positions)
      c.fault("data.sequence_length", cat("data.sequence_length must be at most model.config.", name, " = ",
                                          positions, ", is ", c.recipe.data.sequence_length));
    return;
  }
}

void check_tokenizer(const Checker& c) {
  const Tokenizer& tokenizer = c.recipe.tokenizer;
  if (!c.sound({"tokenizer"})) return;
  if (tokenizer.type && c.given("tokenizer.path") && tokenizer.path)
    c.fault("tokenizer.path", "tokenizer.path and tokenizer.type exclude each other");
  if (!tokenizer.type && !tokenizer.path && !c.recipe.model.base && c.sound({"model"}))
    c.fault("tokenizer", "tokenizer needs path or type, as model.base isn't given");
}

void check_sources(const Checker& c, const std::string& path, const std::vector<Source>& sources) {
  if (!c.sound({path})) return;
  std::size_t weights = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    const std::string here = cat(path, "[", i, "]");
    weights += source.weight ? 1 : 0;
    if (source.separator && source.format != Format::text)
      c.fault(here + ".separator",
              cat(here, ".separator is for format text, the format is ", word_of(source.format)));
  }
  if (path == "data.validation" && weights > 0)
    c.fault(path, "data.validation has weights, but every one of its rows is evaluated once; leave them out");
  else if (weights > 0 && weights < sources.size())
    c.fault(path, cat(path, ": ", weights, " of ", sources.size(),
                      " sources have a weight; give all of them one, or none"));
}

void check_data(const Checker& c) {
  const Data& data = c.recipe.data;
  if (c.sound({"data.train"}) && data.train.empty())
    c.fault("data.train", "data.train needs at least one source, such as `- {path: FILE}`");
  check_sources(c, "data.train", data.train);
  check_sources(c, "data.validation", data.validation.sources);
  if (c.sound({"data.validation", "train.eval_every"}) && data.validation.absent() &&
      c.recipe.train.eval_every > 0)
    c.fault("train.eval_every", cat("train.eval_every is ", c.recipe.train.eval_every,
                                    ", but there is no data.validation to evaluate on"));
}

void check_length(const Checker& c) {
  const Train& train = c.recipe.train;
  if (!c.sound({"train.max_steps", "train.epochs"})) return;
  if (train.max_steps && train.epochs)
    c.fault("train.epochs", "train.epochs and train.max_steps exclude each other");
  if (!train.max_steps && !train.epochs) c.fault("train", "train needs max_steps or epochs");
}

void check_batch(const Checker& c, int ranks) {
  const Train& train = c.recipe.train;
  if (!c.sound({"train.global_batch_size", "train.micro_batch_size"})) return;
  const std::int64_t step = train.micro_batch_size * ranks, below = train.global_batch_size / step * step;
  if (below == train.global_batch_size) return;
  const std::string nearest = below > 0 ? cat(below, " or ", below + step) : cat(below + step);
  c.fault(
      "train.global_batch_size",
      cat("train.global_batch_size must be a multiple of micro_batch_size x ranks = ", train.micro_batch_size,
          " x ", ranks, " = ", step, ", is ", train.global_batch_size, "; nearest: ", nearest));
}

void check_warmup(const Checker& c) {
  const LrSchedule& schedule = c.recipe.lr_schedule;
  const std::optional<std::int64_t>& steps = c.recipe.train.max_steps;
  if (!c.sound({"lr_schedule.warmup_steps", "train.max_steps"}) || !steps || schedule.warmup_steps <= *steps)
    return;
  c.fault("lr_schedule.warmup_steps", cat("lr_schedule.warmup_steps must be at most train.max_steps = ",
                                          *steps, ", is ", schedule.warmup_steps));
}

void check_decay(const Checker& c) {
  const LrSchedule& schedule = c.recipe.lr_schedule;
  if (!c.sound({"lr_schedule", "train.max_steps"})) return;
  const std::string key = "lr_schedule.decay_steps";
  const std::int64_t decay = schedule.decay_steps.value_or(0), warmup = schedule.warmup_steps;
  switch (schedule.name) {
    case ScheduleName::constant:
      if (schedule.decay_steps) c.fault(key, cat(key, " has no meaning for a constant schedule"));
      return;
    case ScheduleName::cosine:
    case ScheduleName::linear:
      if (schedule.decay_steps && decay <= warmup)
        c.fault(key, cat(key, " must be above warmup_steps = ", warmup, ", is ", decay));
      return;
    case ScheduleName::wsd:
      if (!schedule.decay_steps) {
        c.fault("lr_schedule.name", cat(key, " is needed for wsd: the length of the final fall"));
      } else if (c.recipe.train.max_steps && warmup <= *c.recipe.train.max_steps &&
                 warmup + decay > *c.recipe.train.max_steps) {
        c.fault(key, cat(key, " must be at most max_steps - warmup_steps = ",
                         *c.recipe.train.max_steps - warmup, ", is ", decay));
      }
      return;
  }
}

void check_loss_scale(const Checker& c) {
  const Precision& precision = c.recipe.precision;
  if (!c.sound({"precision.loss_scale_init", "precision.loss_scale_min"})) return;
  if (precision.loss_scale_min > precision.loss_scale_init)
    c.fault("precision.loss_scale_min", cat("precision.loss_scale_min must be at most loss_scale_init = ",
                                            precision.loss_scale_init, ", is ", precision.loss_scale_min));
}

}  // namespace

void check_between_keys(const Recipe& recipe, int ranks, const std::map<std::string, Origin>& origins,
                        Faults& faults) {
  const Checker c{recipe, origins, faults};
  check_run(c);
  check_model(c);
  check_positions(c);
  check_tokenizer(c);
  check_data(c);
  check_length(c);
  check_batch(c, ranks);
  check_warmup(c);
  check_decay(c);
  check_loss_scale(c);
}

void derive_defaults(const std::string& filename, int ranks, const std::map<std::string, Origin>& origins,
                     Recipe& recipe) {
  const auto given = [&](const char* path) { return origins.count(path) > 0; };
  if (!given("run.name")) recipe.run.name = std::filesystem::path(filename).stem().string();
  if (recipe.run.name.empty()) recipe.run.name = "run";
  if (!given("run.output_dir")) recipe.run.output_dir = cat("runs/", recipe.run.name);
  if (!recipe.tokenizer.type && !recipe.tokenizer.path) recipe.tokenizer.path = recipe.model.base;
  Train& train = recipe.train;
  if (!given("train.global_batch_size")) train.global_batch_size = train.micro_batch_size * ranks;
  if (!given("train.eval_batch_size")) train.eval_batch_size = train.micro_batch_size;
}

}  // namespace zt::recipe
