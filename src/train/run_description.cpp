#include "train/run_description.h"

#include <algorithm>
#include <array>

#include "base/host.h"
#include "base/text.h"
#include "data/summary.h"

namespace zt::train {

RunPlace place_of_run(comm::Communicator& comm) {
  using Name = std::array<char, 64>;
  const Name mine = host_name_as<Name>();
  std::vector<Name> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<Name>({&mine, 1}, all);
  RunPlace place{{}, this_job()};
  for (const Name& name : all)
    if (std::ranges::find(place.hosts, name.data()) == place.hosts.end())
      place.hosts.emplace_back(name.data());
  return place;
}

nlohmann::ordered_json to_json(const RunPlace& place) {
  nlohmann::ordered_json job;
  if (place.job)
    job = {{"scheduler", place.job.scheduler},
           {"id", place.job.id},
           {"name", place.job.name},
           {"restarts", place.job.restarts}};
  return {{"hosts", place.hosts}, {"job", job}};
}

static std::string host_text(const std::vector<std::string>& hosts) {
  constexpr std::size_t kShown = 8;
  if (hosts.size() <= kShown) return join(hosts, ", ");
  return cat(join({hosts.begin(), hosts.begin() + kShown}, ", "), " and ", hosts.size() - kShown, " more");
}

std::vector<std::string> run_lines(const RunFacts& run, const RunPlace& place, const recipe::Recipe& recipe,
                                   const Setup& setup) {
  const spec::ModelSpec& m = setup.source.spec;
  std::int64_t decayed = 0, frozen = 0;
  for (const spec::BlockSpec& block : m.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) {
      decayed += tensor.decay && tensor.trainable ? tensor.elements() : 0;
      frozen += tensor.trainable ? 0 : tensor.elements();
    }
  }
  std::vector<std::string> lines = {cat("model: ", m.model_type, ", ", with_commas(m.parameters()),
                                        " parameters, ", m.layers, " layers of width ", m.hidden, ", ",
                                        name(dtype_of(recipe.model)),
                                        frozen > 0 ? cat("; ", with_commas(frozen), " frozen") : "")};
  for (const std::string& line : data::summary_of(setup.data, recipe.data)) lines.push_back(line);
  lines.push_back(cat("optimizer: AdamW, weight decay ", recipe.optimizer.weight_decay, " on ",
                      with_commas(decayed), " parameters (matrices), none on ",
                      with_commas(m.parameters() - frozen - decayed), " (norms and biases)"));
  if (run.device != "cpu") lines.push_back(cat("device: ", run.device));
  if (!run.device_note.empty()) lines.push_back(cat("no GPU is used: ", run.device_note));
  if (run.ranks > 1)
    lines.push_back(cat(run.ranks, " ranks at ZeRO stage ", recipe.zero.stage, ", ", run.transport));
  if (place.job || place.hosts.size() > 1)
    lines.push_back(cat("on ", host_text(place.hosts), place.job ? cat("; ", text(place.job)) : ""));
  return lines;
}

nlohmann::ordered_json run_json(const RunFacts& run, const RunPlace& place, const recipe::Recipe& recipe,
                                const Setup& setup) {
  const spec::ModelSpec& m = setup.source.spec;
  nlohmann::ordered_json json = {{"run_id", run.id},
                                 {"name", recipe.run.name},
                                 {"program", cat("zerotrain ", run.build)},
                                 {"model",
                                  {{"type", m.model_type},
                                   {"parameters", m.parameters()},
                                   {"layers", m.layers},
                                   {"width", m.hidden},
                                   {"dtype", name(dtype_of(recipe.model))}}},
                                 {"ranks", run.ranks},
                                 {"stage", recipe.zero.stage},
                                 {"transport", run.transport},
                                 {"device", run.device}};
  json.update(to_json(place));
  json["steps"] = run.steps;
  json["data"] = data::summary_of(setup.data, recipe.data);
  json["product_rate"] = run.product_rate;
  return json;
}

}  // namespace zt::train
