#include "exec/decoder.h"

#include "base/error.h"
#include "exec/engine.h"
#include "plan/step_plan.h"

namespace zt::exec {

static plan::RunShape one_token(Dtype dtype) { return {1, size_of(dtype), false}; }

static std::int64_t cache_bytes(const spec::ModelSpec& m, Dtype dtype, std::int64_t capacity) {
  return std::int64_t{2} * m.layers * capacity * m.kv_size() * size_of(dtype);
}

Decoder::Decoder(const spec::ModelSpec& model, Dtype dtype, std::int64_t capacity)
    : model_(model),
      capacity_(capacity),
      kernels_(kernels::make_cpu_kernels(dtype)),
      params_(model_, dtype, false),
      saved_(plan::saved_buffers(model_, one_token(dtype)).bytes(), "one token's activations"),
      workspace_(plan::workspace_bytes(model_, one_token(dtype)), "the workspace"),
      tables_(plan::rope_table_bytes(model_, capacity), "rotary tables"),
      cache_memory_(cache_bytes(model_, dtype, capacity), "the key/value cache"),
      rows_(2 * std::int64_t{model_.hidden} * size_of(dtype), "one token's rows"),
      logits_(static_cast<std::size_t>(model_.vocab)) {
  run_ = {kernels_.get(), &model_, dtype, 0.f, 0, {}, {}};
  fill_rope_tables(model_, capacity, device::host(), tables_, &run_);
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
  std::int32_t position = static_cast<std::int32_t>(length_++);
  layers::BatchView batch;
  batch.tokens_N = View(&token, 1, 1);
  batch.positions_N = View(&position, 1, 1);
  const std::int64_t width = std::int64_t{model_.hidden} * size_of(run_.dtype);
  View row[2] = {View(rows_.at(0), run_.dtype, 1, model_.hidden),
                 View(rows_.at(width), run_.dtype, 1, model_.hidden)};

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
  blocks_.head->logits(head, View(logits_.data(), 1, model_.vocab));
  return logits_;
}

}  // namespace zt::exec
