#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/step_folders.h"
#include "comm/agreement.h"
#include "comm/mpi.h"
#include "data/summary.h"
#include "exec/backend.h"
#include "measure/machine.h"
#include "measure/product_rate.h"
#include "spec/flops.h"
#include "train/bad_steps.h"
#include "train/batches.h"
#include "train/course.h"
#include "train/dry_run.h"
#include "train/evaluate.h"
#include "train/held_state.h"
#include "train/launch_report.h"
#include "train/learning_rate.h"
#include "train/loss_scale.h"
#include "train/planned_time.h"
#include "train/reports.h"
#include "train/resuming.h"
#include "train/run_description.h"
#include "train/run_export.h"
#include "train/save_time.h"
#include "train/saves.h"
#include "train/setup.h"
#include "train/sharded_state.h"
#include "train/stops.h"

namespace zt::train {
namespace {

// Does the work on every rank; when any rank fails, all throw the first one's error.
void together(comm::Communicator& comm, const std::function<void()>& work) {
  comm::agree(comm, comm::attempt(work));
}

// What every rank has found out by itself, at the same step.
comm::AgreedError agreed(const Error& e) { return {e.blame(), e.problem(), e.hint()}; }

constexpr int kStopped = 75;  // exit status: started again, the run goes on

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
          comm::Communicator& comm, const Ranks& ranks, exec::OpenedBackend backend, Setup setup)
      : loaded_(loaded),
        recipe_(loaded.recipe),
        options_(options),
        comm_(comm),
        ranks_(ranks),
        backend_(std::move(backend)),
        setup_(std::move(setup)),
        stops_(stop, output("save-now"), comm),
        place_(place_of_run(comm)),
        course_(recipe_, setup_.data.train->rows(), token_cost(setup_.source.spec)),
        scale_(loss_scale_options(recipe_)),
        bad_steps_(recipe_.train) {}

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
  void limit_time();
  int train_steps();
  int end(const std::string& stopped_by);

  // The third after the start: the first ones find caches cold.
  std::int64_t traced_step() const { return std::min(course_.first_step() + 3, course_.steps()); }
  kernels::AdamW adamw(double rate) const;
  void one_step();
  StepMetrics measure(const StepBatch& batch, const exec::StepResult& result, double rate, double seconds,
                      const comm::Traffic& sent) const;
  void answer_bad_step(const exec::StepResult& result, const StepSamples& samples, double loss,
                       bool scale_can_mend);
  void rewind();
  void hold_if_due();
  void evaluate_if_due();
  void evaluate_now();
  std::string agreed_stop();
  bool save_due() const;
  void save();
  void save_on_request();
  void note_saves();
  void export_now() { export_model(recipe_, setup_, engine_->params(), comm_); }
  // What checkpoints say of the run: the part that stays as it is, and all of it now.
  checkpoint::RunState lasting_state() const;
  checkpoint::RunState state_now() const;

  const recipe::Loaded& loaded_;
  const recipe::Recipe& recipe_;
  const TrainOptions& options_;
  comm::Communicator& comm_;
  Ranks ranks_;
  exec::OpenedBackend backend_;
  Setup setup_;
  Stops stops_;
  RunPlace place_;
  Course course_;
  LossScale scale_;
  BadSteps bad_steps_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<exec::Engine> engine_;
  std::optional<Saves> saves_;
  std::optional<HeldState> held_;   // where a rule may lead back
  std::optional<Reports> reports_;  // rank 0
  double product_rate_ = 0;
  std::string run_id_;
  checkpoint::RunState lasting_state_;
  bool resumed_ = false;
  std::int64_t noted_save_ = -1, noted_refusals_ = 0;
  std::int64_t evaluated_ = -1;  // the last step with an evaluation
};

int Trainer::run() {
  together(comm_, [this] { open_folder(); });
  exec::Backend& backend = *backend_.backend;
  engine_.emplace(setup_.source.spec, exec::on(backend, engine_options(recipe_, true, ranks_)),
                  &backend.comm());
  saves_.emplace(output("checkpoints"), recipe_.checkpoint, setup_.source.spec, engine_->params(), comm_,
                 [this] {
                   auto files = export_companions(setup_.source, *setup_.tokenizer);
                   files["config.json"] = setup_.source.config.dump(2) + "\n";
                   return files;
                 }());
  if (recipe::may_rewind(recipe_)) held_.emplace(engine_->params());
  start_or_resume();
  comm_.barrier();  // all measure at once, as they will compute
  product_rate_ = measure::measure_product_rate(*engine_->context().kernels, dtype_of(recipe_.model),
                                                backend_.backend->device()) *
                  comm_.size();
  if (course_.complete()) {
    if (lead())
      log::info(cat("the run in ", recipe_.run.output_dir, " is complete: step ", course_.step(), " of ",
                    course_.steps()));
    if (!is_exported(recipe_, course_.step(), comm_)) export_now();
    return 0;
  }
  const std::vector<LaunchLine> launch = launch_report(comm_);
  together(comm_, [this] { open_reports(); });
  if (lead()) say(launch);
  try {
    return train_steps();
  } catch (const Error& e) {
    if (lead())
      reports_->event(EventKind::failed, course_.step(), e.problem(), {{"status", exit_status(e.blame())}});
    throw;
  }
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
  course_.resume(state);
  evaluated_ = course_.step();
  bad_steps_.restore(state.bad_steps);
  resumed_ = true;
  if (dtype_of(recipe_.model) == Dtype::f16 && state.dtype == name(Dtype::f16))
    scale_.restore(state.loss_scale);
  if (lead())
    log::info(cat("going on after step ", course_.step(), " from ", from.folder().string(), ", saved by ",
                  state.ranks, state.ranks == 1 ? " rank" : " ranks", " at stage ", state.stage));
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
  reports_.emplace(recipe_.run.output_dir, recipe_, course_.steps(), course_.step());
  const RunFacts run{run_id_,
                     options_.build,
                     course_.steps(),
                     product_rate_,
                     comm_.size(),
                     engine_->comm().transport(),
                     backend_.backend->device().name(),
                     backend_.note};
  for (const std::string& line : run_lines(run, place_, recipe_, setup_)) log::info(line);
  announce();
  if (time) log::info(planned_time_text(*time));
  reports_->describe(run_json(run, place_, recipe_, setup_));
  nlohmann::ordered_json more = {{"ranks", comm_.size()}, {"stage", recipe_.zero.stage}};
  more.update(to_json(place_));
  reports_->event(resumed_ ? EventKind::resume : EventKind::start, course_.step(),
                  resumed_ ? cat("went on after step ", course_.step(), " of ", course_.steps())
                           : cat("began, ", course_.steps(), " steps to do"),
                  more);
}

void Trainer::announce() const {
  log::info(plan::text(engine_->plan()));
  log::info(fmt::format("{} steps of {} rows; {} reach {:.0f} GFLOP/s in products of {}", course_.steps(),
                        recipe_.train.global_batch_size, comm_.size() > 1 ? "the ranks" : "this machine can",
                        product_rate_ / 1e9, name(dtype_of(recipe_.model))));
}

int Trainer::train_steps() {
  limit_time();
  if (!resumed_) evaluate_now();
  if (held_) held_->hold({course_.step(), course_.updates(), scale_, bad_steps_});
  std::string stop = agreed_stop();
  while (!course_.complete() && stop.empty()) {
    const auto start = std::chrono::steady_clock::now();
    one_step();
    evaluate_if_due();
    if (save_due()) save();
    hold_if_due();
    if (auto& limit = stops_.time_limit()) limit->round_took(seconds_since(start));
    stop = agreed_stop();
  }
  if (lead()) reports_->end_progress();
  return end(course_.step() == course_.steps() ? "" : stop);
}

void Trainer::limit_time() {
  const auto deadline = deadline_of(recipe_.run.time_limit, place_.job, options_.started);
  std::int64_t limited = deadline ? 1 : 0;
  comm_.broadcast(&limited, sizeof limited, 0);
  if (limited == 0) return;
  const double seconds =
      try_save_seconds(recipe_.run.output_dir, owned_state_bytes(engine_->params()), comm_);
  if (!lead()) return;
  stops_.limit(TimeLimit(*deadline, seconds));
  const TimeLimit& limit = *stops_.time_limit();
  log::info(fmt::format("{} ends the run at {}, in {}; a save may take {:.1f} s", deadline->what,
                        measure::utc_text(static_cast<std::int64_t>(deadline->at)),
                        human_seconds(limit.left(now_seconds())), limit.save_seconds()));
}

// Ends a run that is complete, or was stopped by what is named.
int Trainer::end(const std::string& stopped_by) {
  if (stopped_by.empty()) {
    if (save_due()) saves_->last(state_now());
    saves_->finish();
    note_saves();
    export_now();
    if (lead())
      reports_->event(EventKind::done, course_.step(), cat("complete after ", course_.step(), " steps"));
    return 0;
  }
  const std::string what =
      cat(stopped_by, " ended the run after step ", course_.step(), " of ", course_.steps());
  if (recipe_.checkpoint.save_on_signal) {
    saves_->last(state_now());
    note_saves();
    if (lead()) log::warn(cat(what, "; it goes on from there when it is started again"));
  } else {
    saves_->finish();
    export_now();
    if (lead())
      log::warn(cat(what, "; to train on from the exported weights set model.base to the export folder"));
  }
  if (lead()) reports_->event(EventKind::stop, course_.step(), what);
  return kStopped;
}

// A skipped step moves neither Adam nor the schedule.
kernels::AdamW Trainer::adamw(double rate) const {
  const recipe::Optimizer& o = recipe_.optimizer;
  kernels::AdamW adamw;
  adamw.lr = static_cast<float>(rate);
  adamw.beta1 = static_cast<float>(o.betas[0]);
  adamw.beta2 = static_cast<float>(o.betas[1]);
  adamw.eps = static_cast<float>(o.eps);
  adamw.decay = static_cast<float>(o.weight_decay);
  adamw.t = course_.updates() + 1;
  return adamw;
}

void Trainer::one_step() {
  const auto start = std::chrono::steady_clock::now();
  const comm::Traffic before = engine_->comm().traffic();
  course_.next_step();
  const StepSamples samples = course_.samples();
  const StepBatch batch = step_batch(*setup_.data.train, samples, comm_);
  const double rate = learning_rate(recipe_.lr_schedule, recipe_.optimizer.learning_rate,
                                    course_.updates() + 1, course_.steps());
  exec::StepTrace trace;
  const bool traced = lead() && course_.step() == traced_step();
  if (traced) engine_->trace_next_step(&trace);
  const exec::StepResult result =
      engine_->train_step(batch.micros, batch.supervised, static_cast<std::uint32_t>(course_.step()),
                          adamw(rate), recipe_.train.max_grad_norm, scale_.scale(), bad_steps_.max_loss());
  if (result.updated()) course_.updated();
  if (lead()) {
    reports_->step(measure(batch, result, rate, seconds_since(start), engine_->comm().traffic() - before));
    if (traced) reports_->trace(engine_->plan().train, trace, course_.step(), comm_.size());
  }
  const double loss = result.loss_sum / static_cast<double>(batch.supervised);
  const bool scale_can_mend = !result.finite && !scale_.at_floor();
  scale_.update(result.finite);
  if (!result.updated()) return answer_bad_step(result, samples, loss, scale_can_mend);
  bad_steps_.good(loss);
}

StepMetrics Trainer::measure(const StepBatch& batch, const exec::StepResult& result, double rate,
                             double seconds, const comm::Traffic& sent) const {
  StepMetrics m;
  m.step = course_.step();
  m.epoch = course_.epoch();
  m.loss = result.loss_sum / static_cast<double>(batch.supervised);
  m.supervised_tokens = batch.supervised;
  m.tokens = batch.tokens;
  m.slots = recipe_.train.global_batch_size * recipe_.data.sequence_length;
  m.learning_rate = rate;
  m.grad_norm = result.grad_norm;
  m.loss_scale = scale_.scale();
  m.skipped = !result.updated();
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(m.tokens) / m.step_seconds;
  const double flops = spec::training_flops_per_token(setup_.source.spec, recipe_.data.sequence_length);
  m.mfu = m.tokens_per_second * flops / product_rate_;
  m.exposed_comm_seconds = result.exposed_comm_seconds;
  // Beside a GPU the copies are in the host's memory.
  const std::int64_t copies = saves_->snapshot_bytes() + (held_ ? held_->bytes() : 0);
  m.peak_bytes = engine_->held_bytes() + (ranks_.gpu_bytes ? 0 : copies);
  m.planned_bytes = engine_->plan().total();
  m.planned_process_bytes = engine_->plan().process_bytes();
  m.process_peak_bytes = device::process_peak_bytes();
  m.traffic = sent;
  m.cost_imbalance = batch.imbalance;
  m.batch_hash = batch.hash;
  return m;
}

// Overflows of scaled gradients belong to loss scaling, which answers them; the rest goes by the recipe's rules.
void Trainer::answer_bad_step(const exec::StepResult& result, const StepSamples& samples, double loss,
                              bool scale_can_mend) {
  if (scale_can_mend) {
    const std::string what = cat("step ", course_.step(), " was skipped: ", result.first_bad,
                                 " is not finite; the loss scale is now ", scale_.scale());
    if (lead()) log::warn(what);
    if (lead()) reports_->event(EventKind::skip, course_.step(), what);
    return;
  }
  const BadSteps::Answer answer = bad_steps_.bad(result.finite);
  const BadStep bad{course_.step(), result, loss, bad_steps_.reason(result, loss),
                    row_ids(*setup_.data.train, samples)};
  if (answer == BadSteps::Answer::stop) throw agreed(bad_step_error(recipe_.train, bad_steps_, bad));
  if (answer == BadSteps::Answer::skip && scale_.exhausted())
    throw agreed(stopped(scale_, course_.step(), result.first_bad));
  const bool back = answer == BadSteps::Answer::rewind;
  if (back) rewind();
  if (!lead()) return;
  const std::string what = back ? rewound_text(bad, course_.step()) : skipped_text(bad);
  nlohmann::ordered_json facts = facts_of(bad);
  if (back) facts["back_to"] = course_.step();
  log::warn(what);
  reports_->event(back            ? EventKind::rewind
                  : result.finite ? EventKind::spike
                                  : EventKind::skip,
                  bad.step, what, facts);
}

// Back to the state that is held, and from there on without the samples of the step at hand.
void Trainer::rewind() {
  const Standing& then = held_->go_back();
  course_.rewind(then.step, then.updates);
  scale_ = then.scale;
  bad_steps_.go_back_to(then.bad_steps);
  evaluated_ = course_.step() == course_.steps() ? -1 : course_.step();
  if (lead()) reports_->go_back_to(course_.step(), course_.steps());
}

// A checkpoint's state is as good as any, and no rewind should go to before it.
void Trainer::hold_if_due() {
  if (!held_ || course_.step() == held_->step()) return;
  const bool saved = saves_->last_step() == course_.step() ||
                     (saves_->under_way() && saves_->step_under_way() == course_.step());
  if (saved || course_.step() - held_->step() >= recipe_.train.hold_every)
    held_->hold({course_.step(), course_.updates(), scale_, bad_steps_});
}

void Trainer::evaluate_if_due() {
  const bool due = recipe_.train.eval_every > 0 && course_.step() % recipe_.train.eval_every == 0;
  if ((due || course_.step() == course_.steps()) && evaluated_ != course_.step()) evaluate_now();
}

void Trainer::evaluate_now() {
  evaluated_ = course_.step();
  if (setup_.data.validation == nullptr) return;
  const Evaluation e = evaluate(*engine_, *setup_.data.validation, recipe_.train.eval_batch_size);
  if (!lead()) return;
  reports_->evaluation(course_.step(), e.loss(), e.tokens);
}

// Why the run must end here; "" where it goes on. Commits the save under way once every rank has written its file, and
// makes the checkpoint that someone asked for.
std::string Trainer::agreed_stop() {
  const Stops::Agreed agreed = stops_.look(saves_->written());
  if (saves_->under_way() && agreed.written) saves_->commit();
  note_saves();
  if (agreed.save && agreed.stop.empty()) save_on_request();
  if (agreed.out_of_time && course_.step() == course_.first_step())
    throw comm::AgreedError(Blame::usage, cat(agreed.stop, ": no time for a single step"),
                            "give the run more time (sbatch --time, run.time_limit), or smaller steps");
  return agreed.stop;
}

// What became of saves since the last look.
void Trainer::note_saves() {
  if (!lead()) return;
  if (saves_->refused() > noted_refusals_) {
    noted_refusals_ = saves_->refused();
    reports_->event(EventKind::save_failed, course_.step(), "a checkpoint was not saved; the log says why");
  }
  if (saves_->last_step() <= noted_save_) return;
  noted_save_ = saves_->last_step();
  const double seconds = saves_->last_seconds();
  if (auto& limit = stops_.time_limit()) limit->save_took(seconds);
  reports_->event(EventKind::checkpoint, noted_save_, fmt::format("saved in {:.2f} s", seconds),
                  {{"seconds", seconds}});
}

// The file goes when the checkpoint is there, so that whoever asked can wait for that.
void Trainer::save_on_request() {
  save();
  saves_->finish();
  note_saves();
  if (!lead()) return;
  stops_.saved();
  reports_->event(EventKind::save_requested, course_.step(),
                  cat("saved after step ", course_.step(), ", as save-now asked"));
}

bool Trainer::save_due() const {
  const std::optional<std::int64_t> every = recipe_.checkpoint.every_steps;
  return every && (course_.step() % *every == 0 || course_.step() == course_.steps());
}

void Trainer::save() {
  if (saves_->last_step() == course_.step() ||
      (saves_->under_way() && saves_->step_under_way() == course_.step()))
    return;
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
  s.place = to_json(place_);
  return s;
}

checkpoint::RunState Trainer::state_now() const {
  checkpoint::RunState s = lasting_state_;
  course_.write_to(s);
  s.bad_steps = bad_steps_.state();
  s.loss_scale = scale_.state();
  return s;
}

}  // namespace

// A run that was told to stop while its data were prepared has nothing else to save.
static int stopped_early(const std::string& signal, const comm::Communicator& comm) {
  if (comm.rank() == 0)
    log::warn(
        cat(signal.empty() ? "the time limit" : signal,
            " ended the run while its data were prepared; it goes on from there when it is started again"));
  return kStopped;
}

int train(const recipe::Loaded& loaded, const TrainOptions& options, const StopRequests& stop,
          comm::Communicator& comm) {
  if (options.dry_run) {
    dry_run(loaded, ranks_of(options, comm), comm);
    return 0;
  }
  Ranks ranks = ranks_of(options, comm);
  exec::OpenedBackend backend;
  together(comm, [&] { backend = exec::open_backend(loaded.recipe.run.device, comm); });
  ranks.gpu_bytes = free_gpu_bytes(*backend.backend);
  // What is prepared is kept at once, so the little time that remains is for leaving.
  constexpr double kLeaving = 10;
  const auto deadline = deadline_of(loaded.recipe.run.time_limit, this_job(), options.started);
  std::optional<Setup> opened = open_on_all(loaded.recipe, Use::training, ranks, comm, [&] {
    return stop.pending() != nullptr || (deadline && deadline->at - now_seconds() < kLeaving);
  });
  // To a rank whose share was done, perhaps, while others still worked.
  const std::string signal = signal_to_any(stop, comm);
  if (!opened || !signal.empty()) return stopped_early(signal, comm);
  return Trainer(loaded, options, stop, comm, ranks, std::move(backend), *std::move(opened)).run();
}

}  // namespace zt::train
