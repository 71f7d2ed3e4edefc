#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "data/order.h"
#include "spec/flops.h"
#include "train/evaluate.h"
#include "train/learning_rate.h"
#include "train/metrics.h"
#include "train/product_rate.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/setup.h"
#include "train/signals.h"

namespace zt::train {
namespace {

// After this many steps in a row that are not finite a run has diverged.
constexpr int kMaxBadSteps = 5;

// The micro-batches of one step, as every number of ranks sees them.
struct StepBatch {
  std::vector<exec::HostBatch> micros;
  std::int64_t supervised = 0, tokens = 0;
  std::string hash;
};

class Trainer {
 public:
  Trainer(const recipe::Loaded& loaded, Setup setup)
      : loaded_(loaded),
        recipe_(loaded.recipe),
        setup_(std::move(setup)),
        steps_(steps_of(recipe_.train, setup_.data.train->rows())),
        folder_(recipe_.run.output_dir) {}

  int run();

 private:
  void announce() const;
  // The number of samples after which the run ends at the latest; with max_steps there is no such end.
  std::int64_t last_sample() const;
  StepBatch batch_of(std::int64_t step) const;
  void one_step(std::int64_t step);
  void watch(const exec::StepResult& result, std::int64_t step);
  void evaluate_now(std::int64_t step);
  void export_now() const;

  const recipe::Loaded& loaded_;
  const recipe::Recipe& recipe_;
  Setup setup_;
  std::int64_t steps_;
  RunFolder folder_;
  std::optional<exec::Engine> engine_;
  std::optional<MetricsLog> metrics_;
  std::optional<Progress> progress_;
  double product_rate_ = 0;
  std::int64_t updates_ = 0;  // AdamW's t: a skipped step does not count
  int bad_steps_ = 0;
};

int Trainer::run() {
  log::also_to_file((folder_ / "log.txt").string());
  write_file(folder_ / "recipe.yaml", recipe::resolved_text(loaded_));
  engine_.emplace(setup_.source.spec, engine_options(recipe_, true));
  write_file(folder_ / "plan.txt",
             plan::text(engine_->plan()) + "\n" + schedule::text(engine_->plan().train));
  load_weights(setup_.source, engine_->params(), static_cast<std::uint64_t>(recipe_.run.seed));
  product_rate_ = measure_product_rate(*engine_->context().kernels, dtype_of(recipe_.model));
  announce();
  metrics_.emplace(folder_ / "metrics.jsonl");
  progress_.emplace(recipe_.logging.progress, steps_);

  const StopRequests stop;
  evaluate_now(0);
  std::int64_t step = 0;
  while (step < steps_ && stop.pending() == nullptr) {
    one_step(++step);
    const bool due = recipe_.train.eval_every > 0 && step % recipe_.train.eval_every == 0;
    if (due || step == steps_) evaluate_now(step);
  }
  progress_.reset();
  export_now();
  if (step == steps_) return 0;
  log::warn(cat(stop.pending(), " ended the run after step ", step, " of ", steps_,
                "; to train on from the exported weights set model.base to the export folder"));
  return 75;
}

void Trainer::announce() const {
  const spec::ModelSpec& m = setup_.source.spec;
  const data::Dataset& rows = *setup_.data.train;
  std::int64_t decayed = 0;
  for (const spec::BlockSpec& block : m.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) decayed += tensor.decay ? tensor.elements() : 0;
  }
  log::info(cat("model: ", m.model_type, ", ", with_commas(m.parameters()), " parameters, ", m.layers,
                " layers of width ", m.hidden, ", ", name(dtype_of(recipe_.model))));
  log::info(cat("data: ", with_commas(rows.tokens()), " tokens in ", with_commas(rows.rows()),
                " rows of up to ", rows.length(),
                setup_.data.validation
                    ? cat("; ", with_commas(setup_.data.validation->tokens()), " for validation")
                    : ""));
  log::info(cat("optimizer: AdamW, weight decay ", recipe_.optimizer.weight_decay, " on ",
                with_commas(decayed), " parameters (matrices), none on ",
                with_commas(m.parameters() - decayed), " (norms and biases)"));
  log::info(plan::text(engine_->plan()));
  log::info(fmt::format("{} steps of {} rows; this machine's products reach {:.0f} GFLOP/s in {}", steps_,
                        recipe_.train.global_batch_size, product_rate_ / 1e9, name(dtype_of(recipe_.model))));
}

std::int64_t Trainer::last_sample() const {
  const recipe::Train& t = recipe_.train;
  if (!t.epochs) return steps_ * t.global_batch_size;
  return static_cast<std::int64_t>(
      std::ceil(*t.epochs * static_cast<double>(setup_.data.train->rows()) - 1e-9));
}

// Samples past the end of the last epoch are empty rows: a short last window keeps its own token count.
StepBatch Trainer::batch_of(std::int64_t step) const {
  const recipe::Train& t = recipe_.train;
  const data::Dataset& rows = *setup_.data.train;
  const std::int64_t end = last_sample();
  StepBatch batch;
  std::string ids;
  std::int64_t sample = (step - 1) * t.global_batch_size;
  for (std::int64_t m = 0; m < t.global_batch_size / t.micro_batch_size; ++m) {
    std::vector<data::Row> micro;
    for (std::int64_t r = 0; r < t.micro_batch_size && sample < end; ++r, ++sample) {
      micro.push_back(
          rows.row(data::row_of_sample(sample, rows.rows(), static_cast<std::uint64_t>(recipe_.run.seed))));
      const std::vector<std::int32_t>& row = micro.back().ids;
      ids.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(std::int32_t));
      batch.tokens += static_cast<std::int64_t>(row.size());
    }
    batch.micros.push_back(data::make_batch(micro, t.micro_batch_size, rows.length()));
    batch.supervised += batch.micros.back().supervised();
  }
  batch.hash = digest_of(ids).substr(0, 16);
  return batch;
}

void Trainer::one_step(std::int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const StepBatch batch = batch_of(step);
  const recipe::Optimizer& o = recipe_.optimizer;
  kernels::AdamW adamw;
  const double rate = learning_rate(recipe_.lr_schedule, o.learning_rate, step, steps_);
  adamw.lr = static_cast<float>(rate);
  adamw.beta1 = static_cast<float>(o.betas[0]);
  adamw.beta2 = static_cast<float>(o.betas[1]);
  adamw.eps = static_cast<float>(o.eps);
  adamw.decay = static_cast<float>(o.weight_decay);
  adamw.t = updates_ + 1;
  const exec::StepResult result = engine_->train_step(
      batch.micros, batch.supervised, static_cast<std::uint32_t>(step), adamw, recipe_.train.max_grad_norm);
  updates_ += result.finite ? 1 : 0;

  StepMetrics m;
  m.step = step;
  m.epoch = static_cast<double>(std::min(step * recipe_.train.global_batch_size, last_sample())) /
            static_cast<double>(setup_.data.train->rows());
  m.loss = result.loss_sum / static_cast<double>(batch.supervised);
  m.supervised_tokens = batch.supervised;
  m.tokens = batch.tokens;
  m.slots = recipe_.train.global_batch_size * recipe_.data.sequence_length;
  m.learning_rate = rate;
  m.grad_norm = result.grad_norm;
  m.skipped = !result.finite;
  m.step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m.tokens_per_second = static_cast<double>(m.tokens) / m.step_seconds;
  const double flops = spec::training_flops_per_token(setup_.source.spec, recipe_.data.sequence_length);
  m.mfu = m.tokens_per_second * flops / product_rate_;
  m.peak_bytes = device::arena_bytes();
  m.planned_bytes = engine_->plan().total();
  m.batch_hash = batch.hash;
  if (step % recipe_.train.log_every == 0 || step == steps_) metrics_->step(m);
  progress_->step(m);
  watch(result, step);
}

void Trainer::watch(const exec::StepResult& result, std::int64_t step) {
  bad_steps_ = result.finite ? 0 : bad_steps_ + 1;
  if (result.finite) return;
  const std::string what = cat("step ", step, " was skipped: ", result.first_bad, " is not finite");
  if (bad_steps_ >= kMaxBadSteps)
    throw Error(Blame::numbers, cat(what, "; ", bad_steps_, " steps in a row"),
                "a smaller optimizer.learning_rate or a longer lr_schedule.warmup_steps often helps");
  log::warn(what);
}

void Trainer::evaluate_now(std::int64_t step) {
  if (setup_.data.validation == nullptr) return;
  const Evaluation e = evaluate(*engine_, *setup_.data.validation, recipe_.train.eval_batch_size);
  metrics_->evaluation(step, e.loss(), e.tokens);
  progress_->evaluation(step, e.loss(), e.tokens);
}

void Trainer::export_now() const {
  if (recipe_.checkpoint.export_model == recipe::Export::never) return;
  const std::filesystem::path to = folder_ / "export";
  export_weights(to, setup_.source, engine_->params(), *setup_.tokenizer, dtype_of(recipe_.model));
  log::info(cat("model exported to ", to.string()));
}

}  // namespace

int train(const recipe::Loaded& loaded, bool dry_run) {
  Setup setup = open(loaded.recipe, Use::training);
  if (dry_run) {
    log::info(plan::text(plan::plan_step(setup.source.spec, step_shape(loaded.recipe, true))));
    log::info(cat("dry run: recipe, model and data are good for ",
                  steps_of(loaded.recipe.train, setup.data.train->rows()), " steps; nothing was written"));
    return 0;
  }
  return Trainer(loaded, std::move(setup)).run();
}

}  // namespace zt::train
