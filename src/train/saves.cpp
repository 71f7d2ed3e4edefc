#include "train/saves.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/agreement.h"

namespace zt::train {

static bool copies(const recipe::Checkpoint& settings) { return settings.async && settings.every_steps; }

Saves::Saves(const std::filesystem::path& folder, const recipe::Checkpoint& settings,
             const spec::ModelSpec& model, const shard::ParamStore& store, comm::Communicator& comm,
             std::map<std::string, std::string> companions)
    : folder_(folder),
      settings_(settings),
      model_(model),
      store_(store),
      comm_(comm),
      companions_(std::move(companions)) {
  if (!copies(settings) && store.device().is_host()) return;
  snapshot_ = device::Arena(owned_state_bytes(store), "the copy from which checkpoints are written");
}

Saves::~Saves() {
  if (writer_.joinable()) writer_.join();
}

void Saves::attempt(std::int64_t step, const std::function<void()>& save) {
  try {
    save();
  } catch (const comm::AgreedError& e) {
    const bool pass = settings_.on_failed_save == recipe::FailedSave::go_on && !must_succeed_;
    if (!pass || e.blame() != Blame::machine) throw;
    ++refused_;
    if (comm_.rank() > 0) return;
    log::warn(cat("the checkpoint of step ", step, " was not saved: ", e.problem(), "; ",
                  last_step_ < 0 ? std::string("this run has saved none yet")
                                 : cat("the last good one is of step ", last_step_),
                  ", and the next save that is due tries again (checkpoint.on_failed_save: continue)"));
  }
}

void Saves::begin(checkpoint::RunState state) {
  finish();
  const std::int64_t step = state.step;
  attempt(step, [&] { begin_anew(std::move(state)); });
}

void Saves::last(checkpoint::RunState state) {
  finish();
  if (last_step_ == state.step) return;
  must_succeed_ = true;
  begin(std::move(state));
  finish();
}

namespace {

// Adds what passes in its life.
class Busy {
 public:
  explicit Busy(double& seconds) : seconds_(seconds) {}
  ~Busy() { seconds_ += seconds_since(start_); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void Saves::begin_anew(checkpoint::RunState state) {
  comm_.doing(cat("saving step ", state.step));
  busy_seconds_ = 0;
  std::optional<Busy> busy(busy_seconds_);
  const OwnedState owned(model_, store_);
  save_.emplace(checkpoint::Target{folder_, state.step, state.run_id}, checkpoint::bytes_of(owned.pieces()),
                comm_);
  state_ = std::move(state);
  const bool in_place = !copies(settings_) && store_.device().is_host();
  std::vector<checkpoint::Piece> pieces = in_place ? owned.pieces() : owned.copied_to(snapshot_);
  if (!copies(settings_)) {
    save_->write(pieces);
    busy.reset();
    return commit_written();
  }
  busy.reset();
  writer_ = std::thread([this, pieces = std::move(pieces)] {
    const Busy writing(busy_seconds_);
    save_->write(pieces);
  });
}

void Saves::commit() {
  comm_.doing(cat("completing the save of step ", state_.step));
  attempt(state_.step, [this] { commit_written(); });
}

void Saves::commit_written() {
  if (writer_.joinable()) writer_.join();
  std::optional<Busy> busy(busy_seconds_);
  checkpoint::Save save = std::move(*save_);
  save_.reset();
  save.commit(comm_, state_, companions_);
  busy.reset();
  last_seconds_ = busy_seconds_;
  last_step_ = state_.step;
  const bool lead = comm_.rank() == 0;
  if (lead) log::info(cat("checkpoint of step ", state_.step, " saved in ", save.folder().string()));
  const std::optional<Error> failed = comm::attempt([&] {
    if (lead) checkpoint::retain(folder_, state_.run_id, state_.step, static_cast<int>(settings_.keep_last));
  });
  // The new checkpoint is good; what stays too long only takes space.
  if (settings_.on_failed_save == recipe::FailedSave::stop) return comm::agree(comm_, failed);
  if (failed) log::warn(cat("an old checkpoint stays: ", failed->problem()));
}

}  // namespace zt::train
