#include "exec/decoder.h"

#include "base/align.h"
#include "base/error.h"
#include "exec/engine.h"
#include "plan/step_plan.h"

namespace zt::exec {

// Bytes of a token's and of its position's place.
static constexpr std::int64_t kIdBytes = schedule::kAlignment;

static plan::RunShape one_token(Dtype dtype) { return {1, size_of(dtype), false}; }

// Of one token, with what lies between it and the next.
static std::int64_t row_bytes(const spec::ModelSpec& m, Dtype dtype) {
  return round_up(std::int64_t{m.hidden} * size_of(dtype), schedule::kAlignment);
}

static std::int64_t cache_bytes(const spec::ModelSpec& m, Dtype dtype, std::int64_t capacity) {
  return std::int64_t{2} * m.layers * capacity * m.kv_size() * size_of(dtype);
}

Decoder::Decoder(const spec::ModelSpec& model, Dtype dtype, std::int64_t capacity, const Place& place)
    : model_(model),
      capacity_(capacity),
      device_(*place.device),
      kernels_(place.kernels(dtype)),
      params_(model_, dtype, false, {}, device_),
      saved_(device_.claim(plan::saved_buffers(model_, one_token(dtype)).bytes(), "one token's activations")),
      workspace_(device_.claim(plan::workspace_bytes(model_, one_token(dtype)), "the workspace")),
      tables_(device_.claim(plan::rope_table_bytes(model_, capacity), "rotary tables")),
      cache_memory_(device_.claim(cache_bytes(model_, dtype, capacity), "the key/value cache")),
      rows_(device_.claim(2 * row_bytes(model_, dtype), "one token's rows")),
      ids_(device_.claim(2 * kIdBytes, "one token's ids")),
      logits_V_(device_.claim(std::int64_t{model_.vocab} * 4, "logits")),
      logits_(static_cast<std::size_t>(model_.vocab)) {
  run_ = {kernels_.get(), &model_, dtype, 0.f, 0, {}, {}};
  fill_rope_tables(model_, capacity, device_, tables_, &run_);
  blocks_ = make_model(run_);
  const std::int64_t part = capacity * model_.kv_size() * size_of(dtype);
  for (int i = 0; i < model_.layers; ++i) {
    caches_.push_back({View(cache_memory_.at(2 * i * part), dtype, capacity, model_.kv_size()),
                       View(cache_memory_.at((2 * i + 1) * part), dtype, capacity, model_.kv_size()), 0});
  }
}

void Decoder::clear() {
  length_ = 0;
  for (layers::KvCache& cache : caches_) cache.length = 0;
}

std::span<const float> Decoder::step(std::int32_t token) {
  if (length_ >= capacity_) throw Error(Blame::bug, "the decoder's context is full");
  const auto position = static_cast<std::int32_t>(length_++);
  const auto lay = [this](std::int32_t id, std::int64_t offset) {
    device_.to_device(ids_.at(offset), &id, 4);
    return View(ids_.as<std::int32_t>(offset), 1, 1);
  };
  layers::BatchView batch;
  batch.tokens_N = lay(token, 0);
  batch.positions_N = lay(position, kIdBytes);
  View row[2] = {View(rows_.at(0), run_.dtype, 1, model_.hidden),
                 View(rows_.at(row_bytes(model_, run_.dtype)), run_.dtype, 1, model_.hidden)};

  layers::BlockData data;
  data.batch = &batch;
  data.saved = saved_.at(0);
  data.workspace = workspace_.at(0);
  for (int b = 0; b <= model_.layers; ++b) {
    data.x_ND = b == 0 ? View() : row[(b + 1) % 2];
    data.y_ND = row[b % 2];
    data.weights = params_.weights(b);
    data.cache = b == 0 ? nullptr : &caches_[static_cast<std::size_t>(b) - 1];
    blocks_.blocks[static_cast<std::size_t>(b)]->forward(data);
  }
  layers::HeadData head;
  head.block = data;
  head.block.x_ND = row[model_.layers % 2];
  head.block.weights = params_.weights(model_.layers + 1);
  if (model_.tied) head.embedding_weights = params_.weights(0);
  blocks_.head->logits(head, View(logits_V_.as<float>(0), 1, model_.vocab));
  device_.to_host(logits_.data(), logits_V_.at(0), std::int64_t{model_.vocab} * 4);
  return logits_;
}

}  // namespace zt::exec
