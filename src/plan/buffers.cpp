#include "plan/buffers.h"

#include <algorithm>

#include "base/align.h"
#include "base/error.h"
#include "base/text.h"
#include "schedule/op.h"

namespace zt::plan {

using spec::Family;
using spec::ModelSpec;

void BufferSet::add(std::string_view name, std::int64_t rows, std::int64_t cols, int element_bytes) {
  list_.push_back({name, rows, cols, element_bytes, bytes_});
  bytes_ = round_up(bytes_ + rows * cols * element_bytes, schedule::kAlignment);
}

const Buffer& BufferSet::at(std::string_view name) const {
  for (const Buffer& buffer : list_) {
    if (buffer.name == name) return buffer;
  }
  throw Error(Blame::bug, cat("no buffer is called '", name, "'"));
}

static std::int64_t qkv_width(const ModelSpec& m) {
  return std::int64_t{m.heads + 2 * m.kv_heads} * m.head_size;
}

// A gated MLP computes gate and up side by side.
static std::int64_t mlp_width(const ModelSpec& m) {
  return m.family == Family::llama ? 2 * std::int64_t{m.intermediate} : m.intermediate;
}

// The statistics a norm keeps: one fp32 number a group, two for layer norm.
static void add_norm_stats(BufferSet& set, const ModelSpec& m, std::string_view r, std::string_view mean,
                           std::int64_t tokens) {
  set.add(r, tokens, 1, 4);
  if (m.family == Family::gpt2) set.add(mean, tokens, 1, 4);
}

std::vector<Buffer> remade_buffers(const ModelSpec& m, const RunShape& run) {
  const std::int64_t N = run.tokens;
  const int e = run.element_bytes;
  return {{"norm1.out", N, m.hidden, e, 0},
          {"norm2.out", N, m.hidden, e, 0},
          {"mlp.out", N, m.intermediate, e, 0}};
}

// Room for any one of them.
static void add_remade(BufferSet& set, const ModelSpec& m, const RunShape& run) {
  if (!run.selective) return;
  std::int64_t most = 0;
  for (const Buffer& b : remade_buffers(m, run)) most = std::max(most, b.rows * b.cols * b.element_bytes);
  set.add("remade", 1, most, 1);
}

BufferSet saved_buffers(const ModelSpec& m, const RunShape& run) {
  const std::int64_t N = run.tokens;
  const int e = run.element_bytes;
  BufferSet set;
  const auto add_unless_remade = [&](std::string_view name) {
    for (const Buffer& b : remade_buffers(m, run))
      if (b.name == name && !run.selective) set.add(name, b.rows, b.cols, b.element_bytes);
  };
  add_norm_stats(set, m, "norm1.r", "norm1.mean", N);
  add_unless_remade("norm1.out");
  set.add("qkv", N, qkv_width(m), e);
  if (m.qk_norm) {
    set.add("qk.raw", N, std::int64_t{m.heads + m.kv_heads} * m.head_size, e);
    set.add("q_norm.r", N, m.heads, 4);
    set.add("k_norm.r", N, m.kv_heads, 4);
  }
  set.add("lse", m.heads, N, 4);
  set.add("attention.out", N, std::int64_t{m.heads} * m.head_size, e);
  set.add("middle", N, m.hidden, e);
  add_norm_stats(set, m, "norm2.r", "norm2.mean", N);
  add_unless_remade("norm2.out");
  set.add("mlp.in", N, mlp_width(m), e);
  add_unless_remade("mlp.out");
  return set;
}

BufferSet forward_scratch(const ModelSpec& m, const RunShape& run) {
  BufferSet set;
  if (run.dropout) set.add("branch", run.tokens, m.hidden, run.element_bytes);
  add_remade(set, m, run);
  return set;
}

BufferSet mlp_backward_scratch(const ModelSpec& m, const RunShape& run) {
  BufferSet set;
  set.add("d.mlp.out", run.tokens, m.intermediate, run.element_bytes);
  if (m.family == Family::llama) set.add("d.mlp.in", run.tokens, mlp_width(m), run.element_bytes);
  return set;
}

BufferSet attention_backward_scratch(const ModelSpec& m, const RunShape& run) {
  BufferSet set;
  set.add("d.attention.out", run.tokens, std::int64_t{m.heads} * m.head_size, run.element_bytes);
  set.add("d.qkv", run.tokens, qkv_width(m), run.element_bytes);
  set.add("delta", m.heads, run.tokens, 4);
  return set;
}

BufferSet backward_scratch(const ModelSpec& m, const RunShape& run) {
  BufferSet set;
  set.add("d.norm", run.tokens, m.hidden, run.element_bytes);
  if (run.dropout) set.add("branch", run.tokens, m.hidden, run.element_bytes);
  add_remade(set, m, run);
  // The MLP's gradients are spent before the attention's are made, so they share their bytes.
  set.add("shared", 1,
          std::max(mlp_backward_scratch(m, run).bytes(), attention_backward_scratch(m, run).bytes()), 1);
  return set;
}

std::int64_t head_chunk(const ModelSpec& m, const RunShape& run) {
  const std::int64_t wanted = (std::int64_t{64} << 20) / (4 * std::int64_t{m.vocab});
  return std::min(run.tokens, std::max<std::int64_t>(64, wanted / 64 * 64));
}

BufferSet head_scratch(const ModelSpec& m, const RunShape& run) {
  BufferSet set;
  add_norm_stats(set, m, "r", "mean", run.tokens);
  set.add("norm.out", run.tokens, m.hidden, run.element_bytes);
  set.add("d.norm.out", run.tokens, m.hidden, run.element_bytes);
  set.add("logits", head_chunk(m, run), m.vocab, 4);
  if (run.element_bytes == 2) set.add("d.logits", head_chunk(m, run), m.vocab, 2);
  return set;
}

std::int64_t workspace_bytes(const ModelSpec& m, const RunShape& run) {
  return std::max(
      {forward_scratch(m, run).bytes(), backward_scratch(m, run).bytes(), head_scratch(m, run).bytes()});
}

}  // namespace zt::plan
