#include "train/resuming.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "checkpoint/step_folders.h"

namespace zt::train {

using checkpoint::Checkpoint;
using checkpoint::Listed;

// The same list on every rank, whatever changes in the folder meanwhile.
static std::vector<std::int64_t> steps_in(const std::filesystem::path& folder, comm::Communicator& comm) {
  std::vector<std::int64_t> steps;
  if (comm.rank() == 0) {
    for (const Listed& listed : checkpoint::list(folder)) {
      if (listed.good())
        steps.push_back(listed.step);
      else
        log::warn(cat(listed.folder.string(), " is passed over: ", listed.fault));
    }
  }
  auto count = static_cast<std::int64_t>(steps.size());
  comm.broadcast(&count, sizeof count, 0);
  steps.resize(static_cast<std::size_t>(count));
  if (count > 0) comm.broadcast(steps.data(), count * std::int64_t{sizeof steps[0]}, 0);
  return steps;
}

// Opens and reads all of it, each rank its share. Throws the same Error(model) on every rank.
static Checkpoint verified(const std::filesystem::path& folder, comm::Communicator& comm) {
  std::optional<Checkpoint> opened;
  checkpoint::agree(comm, checkpoint::attempt([&] {
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
  std::vector<std::int64_t> steps = steps_in(folder, comm);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return verified(path_of(folder, *step, checkpoint::Phase::whole), comm);
    } catch (const Error& e) {
      if (e.blame() != Blame::model) throw;
      if (comm.rank() == 0) log::warn(cat("checkpoint of step ", *step, " is passed over: ", e.problem()));
    }
  }
  if (resume.kind == Resume::Kind::must)
    throw Error(Blame::usage, cat("--resume must: there is no whole checkpoint in ", folder.string()),
                "`zerotrain checkpoint list` shows what there is; without --resume the run starts afresh");
  return {};
}

void require_same_data(const checkpoint::RunState& state, const recipe::Recipe& recipe,
                       const std::string& data_digest, const std::string& tokenizer_digest) {
  Problems problems;
  if (state.seed != recipe.run.seed) problems.add(cat("run.seed was ", state.seed, ", is ", recipe.run.seed));
  if (state.data_digest != data_digest)
    problems.add(
        "the training rows are others: text, tokenizer, data.sequence_length or data.packing changed");
  if (state.tokenizer_digest != tokenizer_digest) problems.add("the tokenizer is another one");
  problems.throw_if_any(Blame::usage, cat("the checkpoint of step ", state.step, " belongs to other data:"),
                        "restore what changed; or train on from the weights in a new folder: --set "
                        "model.base=CHECKPOINT --set run.output_dir=NEW");
}

}  // namespace zt::train
