// When and how a run writes its checkpoints: straight from the store, or from a copy while training goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/save.h"
#include "comm/communicator.h"
#include "device/arena.h"
#include "recipe/settings.h"
#include "train/sharded_state.h"

namespace zt::train {

// At most one save is under way. All members but written() are collective.
class Saves {
 public:
  // `store` must outlive this. With `settings.async` and regular checkpoints memory for a copy is claimed now.
  // `companions` travel with every checkpoint.
  Saves(const std::filesystem::path& folder, const recipe::Checkpoint& settings, const spec::ModelSpec& model,
        const shard::ParamStore& store, comm::Communicator& comm,
        std::map<std::string, std::string> companions);
  // An unfinished save is waited for and left uncommitted: an error is on its way.
  ~Saves();
  Saves(const Saves&) = delete;
  Saves& operator=(const Saves&) = delete;

  // Begins to save the state as it is. It is a checkpoint after commit(), which regular saves leave to a later
  // step; the next save, or finish(), waits. Throws the same Error on all ranks when a save fails; but where the disk
  // refused and `settings.on_failed_save` says `continue`, rank 0 warns and older checkpoints are all there is.
  void begin(checkpoint::RunState state);
  // The save a run ends with: on return it is a checkpoint. One of this step that is under way, or was refused, counts
  // or is tried again; a failure now is thrown whatever the settings say.
  void last(checkpoint::RunState state);
  bool under_way() const { return save_.has_value(); }
  // Whether this rank's file of the save under way is on disk.
  bool written() const { return save_ && save_->written(); }
  // Makes the save under way a checkpoint, after waiting for its file. Keeps the newest `keep_last`.
  void commit();
  void finish() {
    if (under_way()) commit();
  }
  std::int64_t step_under_way() const { return state_.step; }
  // The last step with a checkpoint of this process; -1 before the first.
  std::int64_t last_step() const { return last_step_; }
  // What the last checkpoint took this rank: copying, writing and agreeing, without what training did meanwhile.
  double last_seconds() const { return last_seconds_; }
  // So many saves of this process were refused by the disk and let pass.
  std::int64_t refused() const { return refused_; }
  std::int64_t snapshot_bytes() const { return snapshot_.bytes(); }

 private:
  void begin_anew(checkpoint::RunState state);
  void commit_written();
  // Does `save`; what it throws is let pass where that is wanted.
  void attempt(std::int64_t step, const std::function<void()>& save);
  std::filesystem::path folder_;
  const recipe::Checkpoint& settings_;
  const spec::ModelSpec& model_;
  const shard::ParamStore& store_;
  comm::Communicator& comm_;
  std::map<std::string, std::string> companions_;
  device::Arena snapshot_;
  std::optional<checkpoint::Save> save_;
  checkpoint::RunState state_;
  std::thread writer_;
  std::int64_t last_step_ = -1;
  double busy_seconds_ = 0, last_seconds_ = 0;  // of the save under way; the writer's while it writes
  std::int64_t refused_ = 0;
  bool must_succeed_ = false;
};

}  // namespace zt::train
