// Tiny models for tests of layers and steps: the PyTorch goldens, and the probes whose losses, gradients and
// updates are known in closed form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "exchange/safetensors.h"
#include "exec/engine.h"

namespace zt::test {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

// The folders of tests/golden_torch, sorted; scripts/reference/README.md says what is in them.
std::vector<std::filesystem::path> golden_folders();

// The values PyTorch computed for one of these models.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& folder) : file_(folder / "golden.safetensors") {}
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  Floats floats(const std::string& name) const;
  Ints ints(const std::string& name) const;
  // The rows `input_ids` with `labels`, each one document. `prefix` is "" or "packed.".
  std::vector<data::Row> rows(const std::string& prefix = "") const;

 private:
  template <typename T>
  std::vector<T> values(const std::string& name) const;
  exchange::SafetensorsFile file_;
};

// A row whose documents have these lengths, every token trained.
data::Row row_of(const Ints& ids, const Ints& document_lengths);

// Rows of one length as consecutive micro-batches of `rows` rows each.
std::vector<exec::HostBatch> micro_batches(const std::vector<data::Row>& all, std::int64_t rows,
                                           std::int64_t length);
std::int64_t supervised(const std::vector<exec::HostBatch>& micros);

// Calls f(block, tensor) for every tensor of the model.
void for_each_tensor(const spec::ModelSpec& model,
                     const std::function<void(int block, const spec::TensorSpec& tensor)>& f);
Floats weights_of(const shard::ParamStore& store, int block, const spec::TensorSpec& tensor);
Floats gradients_of(const shard::ParamStore& store, int block, const spec::TensorSpec& tensor);
// Every weight of the model, block after block.
Floats all_weights(const shard::ParamStore& store, const spec::ModelSpec& model);

// A model of five layers, so that each recompute policy drops some blocks and keeps others: `kind` is a model type,
// width 16 (gpt2) or 18 (others), 51 tokens, a context of 16 or 32.
spec::ModelSpec small_model(const std::string& kind, bool tied = true);

// The zero-head probe's model: one Llama block, width = vocabulary = V, head size 4, own head. Its weights,
// set by fill_probe: embedding 1000 I, all matrices 0, norms 1, so that after the final norm token i is
// sqrt(V) times its unit vector whatever stands before it. The head is 0, or `head(j, i)` for row j, column
// i.
spec::ModelSpec probe_model(int vocabulary, int heads = 1);
void fill_probe(shard::ParamStore& store, const spec::ModelSpec& model,
                const std::function<float(int j, int i)>& head = nullptr);
// The bigram probe's head: the loss of predicting j after i is -ln p(j | i).
std::function<float(int, int)> bigram_head(int vocabulary, const std::function<double(int j, int i)>& p);

}  // namespace zt::test
