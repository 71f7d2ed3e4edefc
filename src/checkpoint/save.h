// Saves one checkpoint. Three acts, of which only the first and the last talk to other ranks, so that the
// middle one can run beside training.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/piece.h"
#include "checkpoint/state.h"
#include "comm/communicator.h"

namespace zt::checkpoint {

// Where a checkpoint goes: `folder`/step-NNNNNNNN. The same on every rank.
struct Target {
  std::filesystem::path folder;  // OUTPUT_DIR/checkpoints; made when absent
  std::int64_t step = 0;
  std::string run_id;
};

// One rank's part of a save. Until commit() nothing but the folder step-NNNNNNNN.partial exists, which
// nobody takes for a checkpoint. A Save that is dropped before commit() leaves that folder; the next one
// removes it.
class Save {
 public:
  // Collective. Removes what earlier saves left unfinished in target.folder, makes the partial folder, and sees
  // that the disk has room for all ranks' bytes (`bytes` is this rank's: bytes_of its pieces). The same error
  // on every rank: Error(machine) when the disk is short, or the folder can't be made or isn't seen by a
  // rank; Error(usage) when another run's checkpoint of this step is in the way.
  Save(const Target& target, std::int64_t bytes, comm::Communicator& communicator);
  ~Save();
  Save(Save&& other) noexcept;
  Save& operator=(Save&& other) noexcept;

  // Local, blocking, once; on any thread. Writes this rank's file straight from the pieces' memory, which must
  // not change meanwhile, syncs it, and reads it back to see that the disk holds what was written. Extra
  // memory below 16 MiB. At most one piece of a tensor and kind; empty pieces are left out. Does not throw:
  // commit() reports what went wrong. Files of several Saves in one process are written one at a time.
  void write(std::span<const Piece> pieces) noexcept;
  // Whether write() has ended, well or not; may be asked from any thread.
  bool written() const noexcept;

  // Collective, after write(), whose thread has been joined. When every rank's write went well, rank 0 adds
  // model.h5, `companions` (name to bytes, in hf/) and the manifest, and one rename makes the checkpoint;
  // it replaces an unreadable or own one of the same step. Else nothing is committed, the partial folder is
  // removed, and the same error, the first failing rank's, is thrown on all ranks. Error(bug) when the pieces
  // of all ranks leave gaps, overlap or disagree. `state` and `companions` are rank 0's. On return the
  // checkpoint is on the disk.
  void commit(comm::Communicator& communicator, const RunState& state,
              const std::map<std::string, std::string>& companions);

  // The folder the checkpoint has after commit().
  std::filesystem::path folder() const;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

// Removes the oldest checkpoints by step number, so that `keep_last` of this run are left; 0 keeps all.
// `newest` (the step just committed) always stays. Only folders whose manifest names `run_id` are counted
// or removed. Not collective: rank 0 calls it after commit(). Returns the removed steps; throws
// Error(machine) when one can't be removed, which harms no checkpoint.
std::vector<std::int64_t> retain(const std::filesystem::path& folder, const std::string& run_id,
                                 std::int64_t newest, int keep_last);

}  // namespace zt::checkpoint
