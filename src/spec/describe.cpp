#include "base/text.h"
#include "spec/model.h"

namespace zt::spec {
namespace {

std::string shape_text(const TensorSpec& t) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : t.shape) extents.push_back(cat(extent));
  return cat("[", join(extents, ", "), "]");
}

std::string block_text(const BlockSpec& block, const std::string& title) {
  std::string out = fmt::format("{:<58}{:>22}{:>18}\n", title, "", with_commas(block.elements));
  for (const TensorSpec& t : block.tensors)
    out += fmt::format("  {:<56}{:>22}{:>18}  {}\n", t.name, shape_text(t), with_commas(t.elements()),
                       t.decay ? "decay" : "-");
  return out;
}

std::int64_t decayed(const ModelSpec& spec) {
  std::int64_t n = 0;
  for (const BlockSpec& block : spec.blocks)
    for (const TensorSpec& t : block.tensors)
      if (t.decay) n += t.elements();
  return n;
}

std::string headline(const ModelSpec& s) {
  std::string out = cat(s.model_type, ": ", s.layers, " layers, width ", s.hidden, ", ", s.heads,
                        " heads of ", s.head_size);
  if (s.kv_heads != s.heads) out += cat(" (", s.kv_heads, " for keys and values)");
  out += cat(", MLP ", s.intermediate, ", vocabulary ", s.vocab, ", context ", s.max_positions);
  if (s.tied) out += ", tied embeddings";
  if (s.rope.scaling != Rope::Scaling::none) out += cat(", rope scaling ", name(s.rope.scaling));
  return out + "\n";
}

}  // namespace

// All layers of a model are alike, so one stands for them.
std::string describe(const ModelSpec& spec) {
  std::string out = headline(spec);
  out += fmt::format("{:<58}{:>22}{:>18}  {}\n", "tensor", "shape", "parameters", "weight decay");
  out += block_text(spec.embedding(), "embedding");
  out += block_text(spec.layer(0), spec.layers == 1 ? "1 layer" : cat("each of ", spec.layers, " layers"));
  out += block_text(spec.head(), "head");
  const std::int64_t with_decay = decayed(spec);
  out += cat(with_commas(spec.parameters()), " parameters: ", with_commas(with_decay), " with weight decay, ",
             with_commas(spec.parameters() - with_decay), " without\n");
  return out;
}

}  // namespace zt::spec
