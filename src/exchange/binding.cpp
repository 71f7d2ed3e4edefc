#include "exchange/binding.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "exchange/words.h"
#include "spec/model.h"

namespace zt::exchange {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr auto kTied = "config.json says tie_word_embeddings is true";
constexpr auto kUntied = "config.json says tie_word_embeddings is false";

// Buffers that older files hold beside the weights; they follow from the config.
constexpr std::string_view kIgnorable[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};

bool ignorable(std::string_view name) {
  return std::any_of(std::begin(kIgnorable), std::end(kIgnorable),
                     [&](std::string_view end) { return name.ends_with(end); });
}

// A base model is saved without the prefix that a model with a head puts before its names.
std::string other_name(const std::string& name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

struct Differences {
  std::int64_t count = 0, first = 0;
};

// Compares two tensors of equal shape as values, piece by piece.
Differences compare(const Place& a, const Place& b) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<float> x(kPiece), y(kPiece);
  Differences out;
  const std::int64_t size = elements_of(a.tensor->shape);
  for (std::int64_t at = 0; at < size; at += kPiece) {
    const std::int64_t n = std::min(kPiece, size - at);
    a.file->read(*a.tensor, at, n, x.data(), Dtype::f32);
    b.file->read(*b.tensor, at, n, y.data(), Dtype::f32);
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::bit_cast<std::uint32_t>(x[std::size_t(i)]) == std::bit_cast<std::uint32_t>(y[std::size_t(i)]))
        continue;
      if (out.count++ == 0) out.first = at + i;
    }
  }
  return out;
}

class Binder {
 public:
  Binder(const spec::ModelSpec& model, const std::vector<const SafetensorsFile*>& files) : model_(model) {
    for (const SafetensorsFile* file : files) {
      for (const StoredTensor& t : file->tensors()) stored_[t.name] = {file, &t};
      for (const auto& [dropped, kept] : file->metadata()) aliases_[dropped] = kept;
    }
  }

  std::map<std::string, Place> bind(const std::string& folder) {
    for (const spec::BlockSpec& block : model_.blocks)
      for (const spec::TensorSpec& tensor : block.tensors) bind_one(tensor);
    if (model_.tied) check_tied_head();
    for (const auto& [name, place] : stored_)
      if (used_.count(name) == 0 && !ignorable(name))
        faults_.add(cat("tensor ", shown(name), " of ", place.file->path().string(), " is not part of this ",
                        model_.model_type, " model"));
    faults_.throw_if_any(cat(folder, " does not hold the model its config.json describes"),
                         "config.json and the weights must come from the same model");
    return std::move(bound_);
  }

 private:
  const Place* find(const std::string& name) {
    const auto at = stored_.find(name);
    if (at == stored_.end()) return nullptr;
    used_.insert(name);
    return &at->second;
  }

  // Under its own name, its short name, the name under which a shared tensor was kept, or the tied head's.
  const Place* find_any(const spec::TensorSpec& tensor) {
    const std::string short_name = other_name(tensor.name);
    for (const std::string& name : {tensor.name, short_name})
      if (const Place* place = find(name)) return place;
    if (tensor.name == kHead) return nullptr;  // an untied head must be there itself
    for (const std::string& name : {tensor.name, short_name})
      if (const auto kept = aliases_.find(name); kept != aliases_.end() && may_share(tensor, kept->second))
        return find(kept->second);
    return may_share(tensor, std::string(kHead)) ? find(std::string(kHead)) : nullptr;
  }

  // Only tied embeddings and head are one tensor.
  bool may_share(const spec::TensorSpec& tensor, const std::string& kept) const {
    return model_.tied && kept == kHead && &tensor == &model_.embedding().tensors.front();
  }

  void bind_one(const spec::TensorSpec& tensor) {
    const Place* const place = find_any(tensor);
    if (place == nullptr) return missing(tensor);
    if (place->tensor->shape != tensor.shape)
      return faults_.add(cat("tensor ", shown(place->tensor->name), " of ", place->file->path().string(),
                             " has shape ", text_of(place->tensor->shape), ", config.json means ",
                             text_of(tensor.shape)));
    if (!place->tensor->dtype)
      return faults_.add(cat("tensor ", shown(place->tensor->name), " of ", place->file->path().string(),
                             " is stored as ", place->tensor->dtype_name,
                             "; weights are read from F32, BF16 and F16"));
    bound_[tensor.name] = *place;
  }

  void missing(const spec::TensorSpec& tensor) {
    if (tensor.name != kHead) return faults_.add(cat("tensor ", shown(tensor.name), " is missing"));
    const auto kept = aliases_.find(tensor.name);
    faults_.add(
        cat(kUntied, ", but no file has ", kHead,
            kept == aliases_.end() ? "" : cat("; the file says it is the same as ", shown(kept->second)),
            ". Set tie_word_embeddings to true if the head is the embedding's matrix"));
  }

  // A head beside tied embeddings is the same matrix written twice, or a contradiction.
  void check_tied_head() {
    const std::string& embedding = model_.embedding().tensors.front().name;
    const auto bound = bound_.find(embedding);
    const Place* const head = find(std::string(kHead));
    if (head == nullptr || bound == bound_.end() || bound->second.tensor == head->tensor) return;
    const StoredTensor& kept = *bound->second.tensor;
    if (head->tensor->shape != kept.shape || !head->tensor->dtype)
      return faults_.add(cat(kTied, ", but ", kHead, " is ", head->tensor->dtype_name, " ",
                             text_of(head->tensor->shape), " and ", kept.name, " is ", kept.dtype_name, " ",
                             text_of(kept.shape)));
    const Differences d = compare(*head, bound->second);
    if (d.count == 0) return;
    const std::int64_t columns = kept.shape.back();
    faults_.add(cat(kTied, ", but ", kHead, " and ", kept.name, " differ in ", d.count, " of ",
                    elements_of(kept.shape), " elements, first at row ", d.first / columns, ", column ",
                    d.first % columns, ". Set tie_word_embeddings to false to keep both, or remove ", kHead));
  }

  const spec::ModelSpec& model_;
  std::map<std::string, Place> stored_;
  std::map<std::string, std::string> aliases_;  // a name that was not stored to the one that was
  std::set<std::string> used_;
  std::map<std::string, Place> bound_;
  Faults faults_;
};

}  // namespace

std::map<std::string, Place> bind_tensors(const spec::ModelSpec& model,
                                          const std::vector<const SafetensorsFile*>& files,
                                          const std::string& folder) {
  return Binder(model, files).bind(folder);
}

}  // namespace zt::exchange
