#include "train/run_export.h"

#include <filesystem>

#include "base/log.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_folders.h"
#include "comm/agreement.h"

namespace zt::train {
namespace fs = std::filesystem;

static fs::path export_folder(const recipe::Recipe& recipe) {
  return fs::path(recipe.run.output_dir) / "export";
}

void export_model(const recipe::Recipe& recipe, const Setup& setup, const shard::ParamStore& store,
                  comm::Communicator& comm) {
  if (recipe.checkpoint.export_model == recipe::Export::never) return;
  const fs::path to = export_folder(recipe);
  const bool lead = comm.rank() == 0;
  comm::agree(comm, comm::attempt([&] {
                if (lead)
                  export_weights(to, setup.source, store, *setup.tokenizer, dtype_of(recipe.model), &comm);
                else
                  serve_export(store, comm);
              }));
  if (lead) log::info(cat("model exported to ", to.string()));
}

bool is_exported(const recipe::Recipe& recipe, std::int64_t step, comm::Communicator& comm) {
  std::int64_t done = 0;
  if (comm.rank() == 0) {
    std::error_code none;
    const auto exported = fs::last_write_time(export_folder(recipe) / "config.json", none);
    done = none ? 0 : 1;
    const fs::path saved_folder =
        path_of(fs::path(recipe.run.output_dir) / "checkpoints", step, checkpoint::Phase::whole);
    const auto saved = fs::last_write_time(saved_folder / checkpoint::kManifestFile, none);
    if (!none && exported < saved) done = 0;
  }
  comm.broadcast(&done, sizeof done, 0);
  return done != 0;
}

}  // namespace zt::train
