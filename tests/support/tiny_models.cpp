#include "support/tiny_models.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/paths.h"

namespace zt::test {
namespace fs = std::filesystem;

std::vector<fs::path> golden_folders() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(source_dir() / "tests/golden_torch"))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

template <typename T>
std::vector<T> Golden::values(const std::string& name) const {
  const exchange::StoredTensor* const tensor = file_.find(name);
  if (tensor == nullptr) throw Error(Blame::bug, cat("the golden file has no tensor ", name));
  if (tensor->dtype_name != (std::is_same_v<T, float> ? "F32" : "I32"))
    throw Error(Blame::bug, cat(name, " is stored as ", tensor->dtype_name));
  const auto bytes = file_.bytes(*tensor);
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Floats Golden::floats(const std::string& name) const { return values<float>(name); }
Ints Golden::ints(const std::string& name) const { return values<std::int32_t>(name); }

std::vector<data::Row> Golden::rows(const std::string& prefix) const {
  const Ints ids = ints(prefix + "input_ids"), labels = ints(prefix + "labels");
  const auto length = static_cast<std::size_t>(file_.find(prefix + "input_ids")->shape.at(1));
  const Ints lengths = has(prefix + "document_lengths") ? ints(prefix + "document_lengths")
                                                        : Ints{static_cast<std::int32_t>(length)};
  std::vector<data::Row> rows;
  for (std::size_t at = 0; at < ids.size(); at += length) {
    const auto begin = static_cast<std::ptrdiff_t>(at), end = static_cast<std::ptrdiff_t>(at + length);
    rows.push_back(row_of({ids.begin() + begin, ids.begin() + end}, lengths));
    rows.back().labels = {labels.begin() + begin, labels.begin() + end};
  }
  return rows;
}

data::Row row_of(const Ints& ids, const Ints& document_lengths) {
  data::Row row{"test", ids, ids, {0}};
  for (const std::int32_t length : document_lengths) row.documents.push_back(row.documents.back() + length);
  return row;
}

std::vector<exec::HostBatch> micro_batches(const std::vector<data::Row>& all, std::int64_t rows,
                                           std::int64_t length) {
  std::vector<exec::HostBatch> micros;
  const auto step = static_cast<std::size_t>(rows);
  for (std::size_t at = 0; at < all.size(); at += step) {
    const std::span<const data::Row> part(all.data() + at, std::min(step, all.size() - at));
    micros.push_back(data::make_batch(part, rows, length));
  }
  return micros;
}

std::int64_t supervised(const std::vector<exec::HostBatch>& micros) {
  std::int64_t sum = 0;
  for (const exec::HostBatch& micro : micros) sum += micro.supervised();
  return sum;
}

void for_each_tensor(const spec::ModelSpec& model,
                     const std::function<void(int, const spec::TensorSpec&)>& f) {
  for (std::size_t b = 0; b < model.blocks.size(); ++b)
    for (const spec::TensorSpec& tensor : model.blocks[b].tensors) f(static_cast<int>(b), tensor);
}

Floats weights_of(const shard::ParamStore& store, int block, const spec::TensorSpec& tensor) {
  Floats out(static_cast<std::size_t>(tensor.elements()));
  store.get(block, tensor.offset, out.data(), tensor.elements());
  return out;
}

Floats gradients_of(const shard::ParamStore& store, int block, const spec::TensorSpec& tensor) {
  const float* const first = store.grads(block) + tensor.offset;
  return {first, first + tensor.elements()};
}

Floats all_weights(const shard::ParamStore& store, const spec::ModelSpec& model) {
  Floats all;
  for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
    const Floats one = weights_of(store, block, tensor);
    all.insert(all.end(), one.begin(), one.end());
  });
  return all;
}

spec::ModelSpec small_model(const std::string& kind, bool tied) {
  if (kind == "gpt2")
    return spec::from_config({{"model_type", "gpt2"},
                              {"n_embd", 16},
                              {"n_head", 4},
                              {"n_layer", 5},
                              {"n_positions", 16},
                              {"tie_word_embeddings", tied},
                              {"vocab_size", 51}},
                             kind);
  return spec::from_config({{"model_type", kind},
                            {"hidden_size", 18},
                            {"num_hidden_layers", 5},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 2},
                            {"head_dim", 4},
                            {"intermediate_size", 27},
                            {"vocab_size", 51},
                            {"max_position_embeddings", 32},
                            {"tie_word_embeddings", tied}},
                           kind);
}

spec::ModelSpec probe_model(int vocabulary, int heads) {
  const nlohmann::json config = {{"model_type", "llama"},           {"hidden_size", vocabulary},
                                 {"num_hidden_layers", 1},          {"num_attention_heads", heads},
                                 {"num_key_value_heads", heads},    {"head_dim", 4},
                                 {"intermediate_size", vocabulary}, {"vocab_size", vocabulary},
                                 {"max_position_embeddings", 64},   {"rms_norm_eps", 1e-5},
                                 {"tie_word_embeddings", false}};
  return spec::from_config(config, "the probe");
}

void fill_probe(shard::ParamStore& store, const spec::ModelSpec& model,
                const std::function<float(int, int)>& head) {
  const auto fill = [&](int block, const spec::TensorSpec& tensor, const auto& value) {
    Floats values(static_cast<std::size_t>(tensor.elements()));
    const auto columns = static_cast<int>(tensor.shape.back());
    for (int at = 0; at < static_cast<int>(values.size()); ++at)
      values[static_cast<std::size_t>(at)] = value(at / columns, at % columns);
    store.set(block, tensor.offset, values.data(), tensor.elements());
  };
  for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
    fill(block, tensor, [&](int j, int i) {
      if (tensor.shape.size() == 1) return 1.f;
      if (tensor.role == "embed_tokens.weight") return j == i ? 1000.f : 0.f;
      return tensor.role == "lm_head.weight" && head ? head(j, i) : 0.f;
    });
  });
}

std::function<float(int, int)> bigram_head(int vocabulary, const std::function<double(int, int)>& p) {
  return [=](int j, int i) { return static_cast<float>(std::log(p(j, i)) / std::sqrt(vocabulary)); };
}

}  // namespace zt::test
