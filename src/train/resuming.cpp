#include "train/resuming.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/step_folders.h"
#include "comm/agreement.h"

namespace zt::train {

using checkpoint::Checkpoint;
using checkpoint::Listed;

// What checkpoints there are, the same on every rank whatever changes in the folder meanwhile.
struct Found {
  std::vector<std::int64_t> steps;  // whose manifest is good
  std::int64_t broken = 0;          // that had been whole
};

static Found found_in(const std::filesystem::path& folder, comm::Communicator& comm) {
  Found found;
  if (comm.rank() == 0) {
    for (const Listed& listed : checkpoint::list(folder)) {
      if (listed.good()) {
        found.steps.push_back(listed.step);
        continue;
      }
      log::warn(cat(listed.folder.string(), " is passed over: ", listed.fault));
      const auto named = checkpoint::parse_step_folder(listed.folder);
      found.broken += named && named->phase == checkpoint::Phase::whole ? 1 : 0;
    }
  }
  std::int64_t counts[] = {static_cast<std::int64_t>(found.steps.size()), found.broken};
  comm.broadcast(counts, sizeof counts, 0);
  found.steps.resize(static_cast<std::size_t>(counts[0]));
  found.broken = counts[1];
  if (counts[0] > 0) comm.broadcast(found.steps.data(), counts[0] * std::int64_t{sizeof found.steps[0]}, 0);
  return found;
}

// Opens and reads all of it, each rank its share. Throws the same Error(model) on every rank.
static Checkpoint verified(const std::filesystem::path& folder, comm::Communicator& comm) {
  std::optional<Checkpoint> opened;
  comm::agree(comm, comm::attempt([&] {
                opened = Checkpoint::open(folder);
                const std::vector<std::string> faults = opened->verify(comm.rank(), comm.size());
                if (!faults.empty())
                  throw Error(Blame::model, cat(folder.string(), " is damaged: ", join(faults, "; ")));
              }));
  return std::move(*opened);
}

std::optional<Checkpoint> find_checkpoint(const Resume& resume, const std::filesystem::path& folder,
                                          comm::Communicator& comm) {
  if (resume.kind == Resume::Kind::never) return {};
  if (resume.kind == Resume::Kind::path) return verified(resume.path, comm);
  const Found found = found_in(folder, comm);
  for (auto step = found.steps.rbegin(); step != found.steps.rend(); ++step) {
    try {
      return verified(path_of(folder, *step, checkpoint::Phase::whole), comm);
    } catch (const Error& e) {
      if (e.blame() != Blame::model) throw;
      if (comm.rank() == 0) log::warn(cat("checkpoint of step ", *step, " is passed over: ", e.problem()));
    }
  }
  const std::int64_t damaged = found.broken + static_cast<std::int64_t>(found.steps.size());
  if (damaged > 0)
    throw comm::AgreedError(Blame::model,
                            damaged == 1
                                ? cat("the only checkpoint in ", folder.string(), " is damaged")
                                : cat("all ", damaged, " checkpoints in ", folder.string(), " are damaged"),
                            "restore one; or start afresh in another folder: --set run.output_dir=NEW");
  if (resume.kind == Resume::Kind::must)
    throw comm::AgreedError(Blame::usage, cat("--resume must: there is no checkpoint in ", folder.string()),
                            "without --resume the run starts afresh");
  return {};
}

void require_newest(const std::filesystem::path& folder, std::int64_t step) {
  std::vector<std::string> later;
  for (const Listed& listed : checkpoint::list(folder))
    if (listed.good() && listed.step > step) later.push_back(cat(listed.step));
  if (later.empty()) return;
  throw Error(
      Blame::usage,
      cat(folder.string(), " holds checkpoints after step ", step, " (", join(later, ", "),
          "), which going back to it would mix with new ones"),
      "choose a new folder for the run from there: --set run.output_dir=NEW; or remove the later ones");
}

void require_same_data(const checkpoint::RunState& state, const recipe::Recipe& recipe,
                       const std::string& data_digest, const std::string& tokenizer_digest) {
  Problems problems;
  if (state.seed != recipe.run.seed) problems.add(cat("run.seed was ", state.seed, ", is ", recipe.run.seed));
  if (state.data_digest != data_digest)
    problems.add(
        "the training rows are others: a file, the tokenizer or its chat template changed, or a key of data "
        "that decides the rows, such as train, sequence_length, packing, train_on, overlong or "
        "validation.fraction");
  if (state.tokenizer_digest != tokenizer_digest) problems.add("the tokenizer is another one");
  problems.throw_if_any(Blame::usage, cat("the checkpoint of step ", state.step, " belongs to other data:"),
                        "restore what changed; or train on from the weights in a new folder: --set "
                        "model.base=CHECKPOINT --set run.output_dir=NEW");
}

}  // namespace zt::train
