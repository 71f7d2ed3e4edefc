#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/step_folders.h"
#include "comm/agreement.h"
#include "comm/mpi.h"
#include "data/summary.h"
#include "device/arena.h"
#include "measure/product_rate.h"
#include "spec/flops.h"
#include "train/batches.h"
#include "train/dry_run.h"
#include "train/evaluate.h"
#include "train/learning_rate.h"
#include "train/loss_scale.h"
#include "train/planned_time.h"
#include "train/reports.h"
#include "train/resuming.h"
#include "train/saves.h"
#include "train/setup.h"

namespace zt::train {
namespace {

// Does the work on every rank; when any rank fails, all throw the first one's error.
void together(comm::Communicator& comm, const std::function<void()>& work) {
  comm::agree(comm, comm::attempt(work));
}

constexpr int kStoppedBySignal = 75;  // exit status: started again, the run goes on

// What ranks tell each other between steps.
struct Signs {
  std::int64_t stop = 0;     // a signal came
  std::int64_t written = 1;  // this rank's file of the save under way is on disk
};

// A block's products take 2 x its parameters of operations a token, its causal attention 2 x width a pair of tokens.
double token_cost(const spec::ModelSpec& model) {
  const spec::BlockSpec& block = model.blocks[model.blocks.size() / 2];
  std::int64_t parameters = 0;
  for (const spec::TensorSpec& tensor : block.tensors) parameters += tensor.elements();
  return static_cast<double>(parameters) / static_cast<double>(model.hidden);
}

// Ranks that no launcher started are threads of this process.
Ranks ranks_of(const TrainOptions& options, const comm::Communicator& comm) {
  return {comm.size(), options.ranks_on_this_node, comm::launched() ? 1 : comm.size()};
}

class Trainer {
 public:
  Trainer(const recipe::Loaded& loaded, const TrainOptions& options, const StopRequests& stop,
          comm::Communicator& comm, Setup setup)
      : loaded_(loaded),
        recipe_(loaded.recipe),
        options_(options),
        stop_(stop),
        comm_(comm),
        ranks_(ranks_of(options, comm)),
        setup_(std::move(setup)),
        scale_(loss_scale_options(recipe_)) {}

  int run();

 private:
  bool lead() const { return comm_.rank() == 0; }
  std::filesystem::path output(const std::string& name) const {
    return std::filesystem::path(recipe_.run.output_dir) / name;
  }
  void open_folder();
  void start_or_resume();
  void resume_from(const checkpoint::Checkpoint& from);
  void start_afresh();
  void open_reports();
  void announce() const;
  int train_steps();
  int end(const char* signal);

  StepSamples samples_of(std::int64_t step) const;
  double epoch_at(std::int64_t step) const;
  void one_step();
  StepMetrics measure(const StepBatch& batch, const exec::StepResult& result, double rate, double seconds,
                      const comm::Traffic& sent) const;
  void watch(const exec::StepResult& result);
  void evaluate_now();
  bool agreed_signs();
  bool save_due() const;
  void save();
  bool export_done() const;
  void export_now();
  // What checkpoints say of the run: the part that stays as it is, and all of it now.
  checkpoint::RunState lasting_state() const;
  checkpoint::RunState state_now() const;

  const recipe::Loaded& loaded_;
  const recipe::Recipe& recipe_;
  const TrainOptions& options_;
  const StopRequests& stop_;
  comm::Communicator& comm_;
  Ranks ranks_;
  Setup setup_;
  LossScale scale_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<exec::Engine> engine_;
  std::optional<Saves> saves_;
  std::optional<Reports> reports_;  // rank 0
  double product_rate_ = 0;
  std::string run_id_;
  checkpoint::RunState lasting_state_;
  bool resumed_ = false;
  std::int64_t step_ = 0, steps_ = 0;  // done, and in all
  std::int64_t samples_ = 0;           // done before this process began, with
  std::int64_t first_step_ = 0;        // so many steps
  std::int64_t updates_ = 0;           // AdamW's t: a skipped step does not count
};

int Trainer::run() {
  together(comm_, [this] { open_folder(); });
  engine_.emplace(setup_.source.spec, engine_options(recipe_, true, ranks_), &comm_);
  saves_.emplace(output("checkpoints"), recipe_.checkpoint, setup_.source.spec, engine_->params(), comm_,
                 [this] {
                   auto files = export_companions(setup_.source, *setup_.tokenizer);
                   files["config.json"] = setup_.source.config.dump(2) + "\n";
                   return files;
                 }());
  start_or_resume();
  comm_.barrier();  // all measure at once, as they will compute
  product_rate_ =
      measure::measure_product_rate(*engine_->context().kernels, dtype_of(recipe_.model)) * comm_.size();
  if (step_ >= steps_) {
    if (lead())
      log::info(cat("the run in ", recipe_.run.output_dir, " is complete: step ", step_, " of ", steps_));
    if (!export_done()) export_now();
    return 0;
  }
  together(comm_, [this] { open_reports(); });
  return train_steps();
}

void Trainer::open_folder() {
  if (!lead()) return;
  // Where a checkpoint must be and there is not even a folder, none is made.
  if (options_.resume.kind == Resume::Kind::must && !std::filesystem::exists(recipe_.run.output_dir)) return;
  folder_.emplace(recipe_.run.output_dir);
  if (options_.resume.kind == Resume::Kind::never) folder_->require_fresh();
}

void Trainer::start_or_resume() {
  const auto found = find_checkpoint(options_.resume, output("checkpoints"), comm_);
  if (found) {
    together(comm_, [&] { resume_from(*found); });
  } else {
    together(comm_, [this] { start_afresh(); });
  }
  comm_.broadcast(run_id_.data(), static_cast<std::int64_t>(run_id_.size()), 0);
  const recipe::Train& t = recipe_.train;
  const std::int64_t left = samples_in(recipe_.train, setup_.data.train->rows()) - samples_;
  steps_ = t.max_steps ? *t.max_steps : first_step_ + (left + t.global_batch_size - 1) / t.global_batch_size;
  engine_->gather_weights();
  lasting_state_ = lasting_state();
}

void Trainer::resume_from(const checkpoint::Checkpoint& from) {
  const checkpoint::RunState& state = from.state();
  const auto inside = std::filesystem::weakly_canonical(from.folder()).parent_path() ==
                      std::filesystem::weakly_canonical(output("checkpoints"));
  if (lead() && !inside) folder_->require_fresh();
  if (lead() && inside && options_.resume.kind == Resume::Kind::path)
    require_newest(output("checkpoints"), state.step);
  require_same_data(state, recipe_, setup_.data.train->digest(), setup_.tokenizer->fingerprint());
  from.check_against(needs_of(setup_.source.spec));
  load_state(from, setup_.source.spec, engine_->params());
  run_id_ = state.run_id;
  step_ = first_step_ = state.step;
  samples_ = state.samples;
  updates_ = state.updates;
  resumed_ = true;
  if (dtype_of(recipe_.model) == Dtype::f16 && state.dtype == name(Dtype::f16))
    scale_.restore(state.loss_scale);
  if (lead())
    log::info(cat("going on after step ", step_, " from ", from.folder().string(), ", saved by ", state.ranks,
                  state.ranks == 1 ? " rank" : " ranks", " at stage ", state.stage));
}

// A run that was killed before its first checkpoint starts over; what it has measured is kept aside.
void Trainer::start_afresh() {
  if (lead()) {
    const bool began = folder_->used() && recipe_.checkpoint.every_steps &&
                       options_.resume.kind == Resume::Kind::automatic &&
                       !std::filesystem::exists(output("export"));
    if (began) {
      log::warn(
          cat("the run in ", folder_->path().string(), " ended before its first checkpoint; starting over"));
      folder_->set_metrics_aside();
    }
    folder_->require_fresh();
  }
  std::random_device entropy;
  run_id_ = fmt::format("{:08x}{:08x}", entropy(), entropy());
  load_weights(setup_.source, engine_->params(), static_cast<std::uint64_t>(recipe_.run.seed));
}

void Trainer::open_reports() {
  if (!lead()) return;
  log::also_to_file(output("log.txt").string());
  write_file(output("recipe.yaml"), cat(recipe::resolved_text(loaded_),
                                        "# data: ", data::trained_share(setup_.data, recipe_.data), "\n"));
  const plan::StepPlan& plan = engine_->plan();
  const auto time = planned_time(setup_.source.spec, engine_->shape(), plan);
  write_file(output("plan.txt"),
             cat(plan::text(plan), time ? plan::text(*time) : "", "\n", schedule::text(plan.train)));
  announce();
  if (time) log::info(planned_time_text(*time));
  reports_.emplace(recipe_.run.output_dir, recipe_, steps_, step_);
}

void Trainer::announce() const {
  const spec::ModelSpec& m = setup_.source.spec;
  std::int64_t decayed = 0, frozen = 0;
  for (const spec::BlockSpec& block : m.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) {
      decayed += tensor.decay && tensor.trainable ? tensor.elements() : 0;
      frozen += tensor.trainable ? 0 : tensor.elements();
    }
  }
  log::info(cat("model: ", m.model_type, ", ", with_commas(m.parameters()), " parameters, ", m.layers,
                " layers of width ", m.hidden, ", ", name(dtype_of(recipe_.model)),
                frozen > 0 ? cat("; ", with_commas(frozen), " frozen") : ""));
  for (const std::string& line : data::summary_of(setup_.data, recipe_.data)) log::info(line);
  log::info(cat("optimizer: AdamW, weight decay ", recipe_.optimizer.weight_decay, " on ",
                with_commas(decayed), " parameters (matrices), none on ",
                with_commas(m.parameters() - frozen - decayed), " (norms and biases)"));
  if (comm_.size() > 1)
    log::info(cat(comm_.size(), " ranks at ZeRO stage ", recipe_.zero.stage, ", ", comm_.transport()));
  log::info(plan::text(engine_->plan()));
  log::info(fmt::format("{} steps of {} rows; {} reach {:.0f} GFLOP/s in products of {}", steps_,
                        recipe_.train.global_batch_size, comm_.size() > 1 ? "the ranks" : "this machine can",
                        product_rate_ / 1e9, name(dtype_of(recipe_.model))));
}

int Trainer::train_steps() {
  if (!resumed_) evaluate_now();
  bool stopped = agreed_signs();
  while (step_ < steps_ && !stopped) {
    one_step();
    const bool due = recipe_.train.eval_every > 0 && step_ % recipe_.train.eval_every == 0;
    if (due || step_ == steps_) evaluate_now();
    if (save_due()) save();
    stopped = agreed_signs();
  }
  if (lead()) reports_->end_progress();
  const char* const here = stop_.pending();
  return end(step_ == steps_ ? nullptr : here != nullptr ? here : "a signal to another rank");
}

// Ends a run that is complete, or was stopped by a signal (its name).
int Trainer::end(const char* signal) {
  if (signal == nullptr) {
    saves_->finish();
    export_now();
    return 0;
  }
  const std::string what = cat(signal, " ended the run after step ", step_, " of ", steps_);
  if (recipe_.checkpoint.save_on_signal) {
    save();
    saves_->finish();
    if (lead()) log::warn(cat(what, "; it goes on from there when it is started again"));
  } else {
    saves_->finish();
    export_now();
    if (lead())
      log::warn(cat(what, "; to train on from the exported weights set model.base to the export folder"));
  }
  return kStoppedBySignal;
}

StepSamples Trainer::samples_of(std::int64_t step) const {
  const recipe::Train& t = recipe_.train;
  return {samples_ + (step - 1 - first_step_) * t.global_batch_size,
          t.global_batch_size,
          t.epochs ? samples_in(recipe_.train, setup_.data.train->rows())
                   : samples_ + (steps_ - first_step_) * t.global_batch_size,
          t.micro_batch_size,
          static_cast<std::uint64_t>(recipe_.run.seed),
          token_cost(setup_.source.spec)};
}

// Passes over the training rows when `step` is done.
double Trainer::epoch_at(std::int64_t step) const {
  const StepSamples s = samples_of(step);
  return static_cast<double>(std::min(s.first + s.count, s.end)) /
         static_cast<double>(setup_.data.train->rows());
}

void Trainer::one_step() {
  const auto start = std::chrono::steady_clock::now();
  const comm::Traffic before = comm_.traffic();
  ++step_;
  const StepBatch batch = step_batch(*setup_.data.train, samples_of(step_), comm_);
  const recipe::Optimizer& o = recipe_.optimizer;
  kernels::AdamW adamw;
  // A skipped step moves neither Adam nor the schedule.
  const double rate = learning_rate(recipe_.lr_schedule, o.learning_rate, updates_ + 1, steps_);
  adamw.lr = static_cast<float>(rate);
  adamw.beta1 = static_cast<float>(o.betas[0]);
  adamw.beta2 = static_cast<float>(o.betas[1]);
  adamw.eps = static_cast<float>(o.eps);
  adamw.decay = static_cast<float>(o.weight_decay);
  adamw.t = updates_ + 1;
  const exec::StepResult result =
      engine_->train_step(batch.micros, batch.supervised, static_cast<std::uint32_t>(step_), adamw,
                          recipe_.train.max_grad_norm, scale_.scale());
  updates_ += result.finite ? 1 : 0;
  if (lead()) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    reports_->step(measure(batch, result, rate, seconds, comm_.traffic() - before));
  }
  scale_.update(result.finite);
  watch(result);
}

StepMetrics Trainer::measure(const StepBatch& batch, const exec::StepResult& result, double rate,
                             double seconds, const comm::Traffic& sent) const {
  StepMetrics m;
  m.step = step_;
  m.epoch = epoch_at(step_);
  m.loss = result.loss_sum / static_cast<double>(batch.supervised);
  m.supervised_tokens = batch.supervised;
  m.tokens = batch.tokens;
  m.slots = recipe_.train.global_batch_size * recipe_.data.sequence_length;
  m.learning_rate = rate;
  m.grad_norm = result.grad_norm;
  m.loss_scale = scale_.scale();
  m.skipped = !result.finite;
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(m.tokens) / m.step_seconds;
  const double flops = spec::training_flops_per_token(setup_.source.spec, recipe_.data.sequence_length);
  m.mfu = m.tokens_per_second * flops / product_rate_;
  m.exposed_comm_seconds = result.exposed_comm_seconds;
  m.peak_bytes = engine_->held_bytes() + saves_->snapshot_bytes();
  m.planned_bytes = engine_->plan().total();
  m.planned_process_bytes = engine_->plan().process_bytes();
  m.process_peak_bytes = device::process_peak_bytes();
  m.traffic = sent;
  m.cost_imbalance = batch.imbalance;
  m.batch_hash = batch.hash;
  return m;
}

void Trainer::watch(const exec::StepResult& result) {
  if (result.finite) return;
  if (scale_.exhausted()) {
    const Error why = stopped(scale_, step_, result.first_bad);
    throw comm::AgreedError(why.blame(), why.problem(), why.hint());
  }
  const bool scaled = dtype_of(recipe_.model) == Dtype::f16;
  if (lead())
    log::warn(cat("step ", step_, " was skipped: ", result.first_bad, " is not finite",
                  scaled ? cat("; the loss scale is now ", scale_.scale()) : ""));
}

void Trainer::evaluate_now() {
  if (setup_.data.validation == nullptr) return;
  const Evaluation e = evaluate(*engine_, *setup_.data.validation, recipe_.train.eval_batch_size);
  if (!lead()) return;
  reports_->evaluation(step_, e.loss(), e.tokens);
}

// Whether any rank was told to stop. Commits the save under way once every rank has written its file.
bool Trainer::agreed_signs() {
  const Signs mine{stop_.pending() != nullptr ? 1 : 0, saves_->written() ? 1 : 0};
  std::vector<Signs> all(static_cast<std::size_t>(comm_.size()));
  comm_.exchange<Signs>({&mine, 1}, all);
  bool stop = false, written = saves_->under_way();
  for (const Signs& signs : all) {
    stop = stop || signs.stop != 0;
    written = written && signs.written != 0;
  }
  if (written) saves_->commit();
  return stop;
}

bool Trainer::save_due() const {
  const std::optional<std::int64_t> every = recipe_.checkpoint.every_steps;
  return every && (step_ % *every == 0 || step_ == steps_);
}

void Trainer::save() {
  if (saves_->last_step() == step_ || (saves_->under_way() && saves_->step_under_way() == step_)) return;
  saves_->begin(state_now());
}

checkpoint::RunState Trainer::lasting_state() const {
  checkpoint::RunState s;
  s.run_id = run_id_;
  s.seed = recipe_.run.seed;
  const nlohmann::json settings = recipe::values_of(recipe_, "lr_schedule");
  s.learning_rate_schedule = settings["name"];
  s.learning_rate = settings;
  s.recipe = recipe::resolved_text(loaded_);
  s.build = options_.build;
  s.data_digest = setup_.data.train->digest();
  s.tokenizer_digest = setup_.tokenizer->fingerprint();
  s.model_config = setup_.source.config;
  s.fingerprint = fingerprint(engine_->plan().train);
  s.ranks = comm_.size();
  s.stage = static_cast<int>(recipe_.zero.stage);
  s.dtype = name(dtype_of(recipe_.model));
  return s;
}

checkpoint::RunState Trainer::state_now() const {
  checkpoint::RunState s = lasting_state_;
  s.step = step_;
  s.updates = updates_;
  s.samples =
      std::min(samples_ + (step_ - first_step_) * recipe_.train.global_batch_size, samples_of(steps_).end);
  s.loss_scale = scale_.state();
  return s;
}

// An export that is older than the last checkpoint is of an earlier end, to which steps were added.
bool Trainer::export_done() const {
  namespace fs = std::filesystem;
  std::int64_t done = 0;
  if (lead()) {
    std::error_code none;
    const auto exported = fs::last_write_time(output("export") / "config.json", none);
    done = none ? 0 : 1;
    const auto saved = fs::last_write_time(
        path_of(output("checkpoints"), step_, checkpoint::Phase::whole) / checkpoint::kManifestFile, none);
    if (!none && exported < saved) done = 0;
  }
  comm_.broadcast(&done, sizeof done, 0);
  return done != 0;
}

void Trainer::export_now() {
  if (recipe_.checkpoint.export_model == recipe::Export::never) return;
  const std::filesystem::path to = output("export");
  together(comm_, [&] {
    if (lead())
      export_weights(to, setup_.source, engine_->params(), *setup_.tokenizer, dtype_of(recipe_.model),
                     &comm_);
    else
      serve_export(engine_->params(), comm_);
  });
  if (lead()) log::info(cat("model exported to ", to.string()));
}

}  // namespace

// A run that was told to stop while its data were prepared has nothing else to save.
static int stopped_early(const comm::Communicator& comm, const StopRequests& stop) {
  const char* const signal = stop.pending();
  if (comm.rank() == 0)
    log::warn(
        cat(signal != nullptr ? signal : "a signal to another rank",
            " ended the run while its data were prepared; it goes on from there when it is started again"));
  return kStoppedBySignal;
}

int train(const recipe::Loaded& loaded, const TrainOptions& options, const StopRequests& stop,
          comm::Communicator& comm) {
  if (options.dry_run) {
    dry_run(loaded, ranks_of(options, comm), comm);
    return 0;
  }
  std::optional<Setup> opened = open_on_all(loaded.recipe, Use::training, ranks_of(options, comm), comm,
                                            [&stop] { return stop.pending() != nullptr; });
  if (!opened) return stopped_early(comm, stop);
  return Trainer(loaded, options, stop, comm, *std::move(opened)).run();
}

}  // namespace zt::train
