#include "train/saves.h"

#include <utility>

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
  if (!copies(settings)) return;
  std::int64_t bytes = 0;
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b)
    bytes += plan::snapshot_bytes(store.layout(b));
  snapshot_ = device::Arena(bytes, "the copy from which checkpoints are written");
}

Saves::~Saves() {
  if (writer_.joinable()) writer_.join();
}

void Saves::begin(checkpoint::RunState state) {
  finish();
  const OwnedState owned(model_, store_);
  save_.emplace(checkpoint::Target{folder_, state.step, state.run_id}, checkpoint::bytes_of(owned.pieces()),
                comm_);
  state_ = std::move(state);
  if (!copies(settings_)) {
    save_->write(owned.pieces());
    return commit();
  }
  writer_ = std::thread([this, pieces = owned.copied_to(snapshot_)] { save_->write(pieces); });
}

void Saves::commit() {
  if (writer_.joinable()) writer_.join();
  checkpoint::Save save = std::move(*save_);
  save_.reset();
  save.commit(comm_, state_, companions_);
  last_step_ = state_.step;
  if (comm_.rank() > 0) return;
  log::info(cat("checkpoint of step ", state_.step, " saved in ", save.folder().string()));
  checkpoint::retain(folder_, state_.run_id, state_.step, static_cast<int>(settings_.keep_last));
}

}  // namespace zt::train
