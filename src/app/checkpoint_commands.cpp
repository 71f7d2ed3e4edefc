// Commands about checkpoints.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/step_folders.h"

namespace zt::app {

namespace fs = std::filesystem;

// A run's folder, its checkpoints folder, or one checkpoint: what there is, by step.
static std::vector<checkpoint::Listed> checkpoints_at(const fs::path& path) {
  if (!fs::exists(path))
    throw Error(Blame::usage, cat(path.string(), " does not exist"), "name a run's folder or a checkpoint's");
  const fs::path folder = fs::exists(path / "checkpoints") ? path / "checkpoints" : path;
  if (!checkpoint::parse_step_folder(fs::absolute(folder).lexically_normal()))
    return checkpoint::list(folder);
  std::vector<checkpoint::Listed> one;
  for (checkpoint::Listed& listed : checkpoint::list(fs::absolute(folder).lexically_normal().parent_path()))
    if (fs::equivalent(listed.folder, folder)) one.push_back(std::move(listed));
  return one;
}

int list_checkpoints(const std::string& path) {
  const std::vector<checkpoint::Listed> all = checkpoints_at(path);
  if (all.empty()) std::cout << "no checkpoints in " << path << "\n";
  for (const checkpoint::Listed& c : all) {
    std::cout << fmt::format("{:>10}  ", c.step);
    if (c.good())
      std::cout << fmt::format("{:>11}  {} rank{} at stage {}, {}, after {} samples  {}\n",
                               human_bytes(c.bytes), c.state->ranks, c.state->ranks == 1 ? "" : "s",
                               c.state->stage, c.state->dtype, with_commas(c.state->samples),
                               c.folder.string());
    else
      std::cout << "not usable: " << c.fault << "\n";
  }
  return 0;
}

int verify_checkpoint(const std::string& path) {
  Problems problems;
  int good = 0;
  for (const checkpoint::Listed& c : checkpoints_at(path)) {
    std::vector<std::string> faults = {c.fault};
    if (c.good()) faults = checkpoint::Checkpoint::open(c.folder).verify();
    for (const std::string& fault : faults) problems.add(cat(c.folder.string(), ": ", fault));
    if (!faults.empty()) continue;
    std::cout << c.folder.string() << ": every byte is right (" << human_bytes(c.bytes) << ")\n";
    ++good;
  }
  if (good == 0 && problems.empty())
    throw Error(Blame::model, cat("there are no checkpoints in ", path),
                "name a run's folder or a checkpoint's");
  problems.throw_if_any(Blame::model, "checkpoints are damaged:", "a run goes on from the newest whole one");
  return 0;
}

int inspect_checkpoint(const std::string& path) {
  const checkpoint::Checkpoint c = checkpoint::Checkpoint::open(path);
  nlohmann::ordered_json out;
  out["state"] = checkpoint::to_json(c.state());
  out["bytes"] = c.bytes();
  for (const auto& [name, tensor] : c.manifest().tensors) {
    nlohmann::ordered_json& entry = out["tensors"][name];
    entry["shape"] = tensor.shape;
    for (const checkpoint::Kind kind : checkpoint::kKinds)
      if (!tensor.of(kind).empty()) entry["kinds"].push_back(checkpoint::name(kind));
    entry["pieces"] = tensor.of(checkpoint::Kind::value).size();
  }
  std::cout << out.dump(2) << "\n";
  return 0;
}

}  // namespace zt::app
