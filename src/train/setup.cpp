#include "train/setup.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "device/arena.h"
#include "train/fit.h"

namespace zt::train {

Dtype dtype_of(const recipe::Model& model) {
  return model.dtype == recipe::ModelDtype::float32 ? Dtype::f32 : Dtype::bf16;
}

static schedule::Policy policy_of(const recipe::Recompute& r) {
  using Kind = recipe::Recompute::Kind;
  switch (r.kind) {
    case Kind::none: return {schedule::Recompute::none, 1};
    case Kind::full: return {schedule::Recompute::full, 1};
    case Kind::sqrt: return {schedule::Recompute::sqrt, 1};
    case Kind::every: return {schedule::Recompute::every, static_cast<int>(r.every)};
  }
  return {};
}

plan::StepShape step_shape(const recipe::Recipe& r, bool training) {
  plan::StepShape shape;
  shape.element_bytes = size_of(dtype_of(r.model));
  shape.dropout = r.model.dropout > 0;
  shape.training = training;
  shape.sequence_length = r.data.sequence_length;
  shape.rows = r.train.micro_batch_size;
  shape.micros = r.train.global_batch_size / r.train.micro_batch_size;
  shape.eval_rows = r.train.eval_batch_size;
  shape.policy = policy_of(r.memory.recompute);
  return shape;
}

exec::EngineOptions engine_options(const recipe::Recipe& r, bool training) {
  return {step_shape(r, training), dtype_of(r.model), static_cast<float>(r.model.dropout),
          static_cast<std::uint64_t>(r.run.seed)};
}

Setup open(const recipe::Recipe& r, Use use) {
  Setup s;
  s.tokenizer = open_tokenizer(r);
  s.source = open_model(r.model, *s.tokenizer);
  check_context(r, s.source.spec);
  if (use != Use::looking) require_fit(r, s.source.spec, use == Use::training, device::available_bytes());
  s.data = data::open_text(r.data, *s.tokenizer, s.source.spec.vocab, use != Use::evaluation);
  return s;
}

spec::ModelSpec open_spec(const recipe::Recipe& r) {
  if (r.model.base) {
    const std::filesystem::path folder = *r.model.base;
    return spec::from_config(exchange::read_config(folder), (folder / "config.json").string());
  }
  if (r.model.config.contains("vocab_size")) return spec::from_config(r.model.config, "model.config");
  return open_model(r.model, *open_tokenizer(r)).spec;
}

void check_context(const recipe::Recipe& r, const spec::ModelSpec& model) {
  if (r.data.sequence_length <= model.max_positions) return;
  throw Error(Blame::usage,
              cat("data.sequence_length is ", r.data.sequence_length, ", but the model's context is ",
                  model.max_positions, " (max_position_embeddings)"),
              "shorten data.sequence_length, or name a rope_scaling and a larger max_position_embeddings in "
              "the model's config");
}

std::int64_t steps_of(const recipe::Train& train, std::int64_t rows) {
  if (train.max_steps) return *train.max_steps;
  const double samples = std::ceil(*train.epochs * static_cast<double>(rows) - 1e-9);
  return static_cast<std::int64_t>(std::ceil(samples / static_cast<double>(train.global_batch_size)));
}

}  // namespace zt::train
