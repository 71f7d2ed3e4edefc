#include "train/dry_run.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "data/source.h"
#include "device/arena.h"
#include "spec/freeze.h"
#include "train/planned_time.h"

namespace zt::train {
namespace {

struct Dry {
  spec::ModelSpec spec;
  plan::StepShape shape;
  plan::StepPlan plan;
  std::string model, tokenizer;  // fingerprints
};

void require_files(const recipe::Data& data) {
  (void)data::files_of(data.train);
  (void)data::files_of(data.validation.sources);
}

Dry plan_without_weights(const recipe::Recipe& r, const Ranks& ranks, const comm::Communicator& comm) {
  require_files(r.data);
  const auto tokenizer = open_tokenizer(r);
  spec::ModelSpec model = open_spec(r);
  spec::freeze(model, r.train.freeze);
  check_vocabulary(model, *tokenizer);
  check_context(r, model);
  plan::StepShape shape = step_shape(r, true, ranks);
  // A dry run needs no GPU; how much is free on those of the run is not known here.
  if (!shape.gpu) require_fit(r, model, true, device::available_bytes(), ranks);
  if (!shape.gpu) shape.comm_bytes = comm.buffer_bytes();
  return {model, shape, plan::plan_step(model, shape), digest_of(spec::describe(model)),
          tokenizer->fingerprint()};
}

void require_agreement(const Dry& dry, comm::Communicator& comm) {
  const char* const hint = "start every rank with the same recipe, model and program";
  comm::require_same(comm, fingerprint(dry.plan.train) + fingerprint(dry.plan.eval), Blame::peer,
                     "planned different steps", hint);
  comm::require_same(comm, digest_of(cat(dry.model, dry.tokenizer)), Blame::peer,
                     "have opened different models or tokenizers", hint);
}

std::string length_of(const recipe::Train& train) {
  return train.max_steps ? cat(with_commas(*train.max_steps), " steps")
                         : cat("as many steps as ", *train.epochs, " passes over the data take");
}

}  // namespace

void dry_run(const recipe::Loaded& loaded, const Ranks& ranks, comm::Communicator& comm) {
  Dry dry;
  comm::agree(comm, comm::attempt([&] { dry = plan_without_weights(loaded.recipe, ranks, comm); }));
  require_agreement(dry, comm);
  if (comm.rank() > 0) return;
  log::info(plan::text(dry.plan));
  if (const auto time = planned_time(dry.spec, dry.shape, dry.plan))
    log::info(cat(plan::text(*time), planned_time_text(*time)));
  const std::string list = fingerprint(dry.plan.train);
  log::info(comm.size() > 1 ? cat("ranks 0 to ", comm.size() - 1, " agree on step list ", list)
                            : cat("step list ", list));
  log::info(cat("dry run: recipe, model config and tokenizer are good for ", length_of(loaded.recipe.train),
                "; weights and the contents of data files were not looked at; nothing was written"));
}

}  // namespace zt::train
