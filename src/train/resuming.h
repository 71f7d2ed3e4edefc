// From which checkpoint a run goes on, and whether it may.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "recipe/settings.h"
#include "train/run_folder.h"

namespace zt::train {

// The checkpoint that `resume` means: the one it names, or the newest in `folder` whose every byte is right; worse
// ones are passed over with a warning. Ranks share the reading. None where there is none and none is asked for.
// Error(usage) where one is asked for and there is none, Error(model) where the named one is damaged, or all are.
// Collective.
std::optional<checkpoint::Checkpoint> find_checkpoint(const Resume& resume,
                                                      const std::filesystem::path& folder,
                                                      comm::Communicator& comm);

// Throws Error(usage) where `folder` has checkpoints of later steps: a run that went back would leave two pasts in one
// folder, and the next start would go on from the wrong one.
void require_newest(const std::filesystem::path& folder, std::int64_t step);

// Throws Error(usage), with all differences, where going on would not mean the same: other data, rows, tokenizer
// or seed, so that the data position would point elsewhere.
void require_same_data(const checkpoint::RunState& state, const recipe::Recipe& recipe,
                       const std::string& data_digest, const std::string& tokenizer_digest);

}  // namespace zt::train
