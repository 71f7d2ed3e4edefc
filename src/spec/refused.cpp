#include "spec/refused.h"

#include <algorithm>

#include "base/text.h"

namespace zt::spec {
namespace {

using nlohmann::json;
using Off = bool (*)(const json&);

bool off_when_false(const json& v) { return v == json(false); }
bool off_when_empty(const json& v) { return (v.is_array() || v.is_object()) && v.empty(); }
bool off_when_one(const json& v) { return v.is_number() && v.get<double>() == 1.0; }
bool off_when_zero(const json& v) { return v == json(false) || (v.is_number() && v.get<double>() == 0.0); }
bool off_when_all_on(const json& v) {
  return v.is_array() &&
         std::all_of(v.begin(), v.end(), [](const json& x) { return x == json(1) || x == json(true); });
}
bool off_when_usual_position(const json& v) { return v == json("absolute") || v == json("rope"); }
bool never_off(const json&) { return false; }

struct Feature {
  const char* key;
  const char* what;
  Off off;  // null is always off
};

// The one list. Keys of other model types stand here because files that call themselves "llama" carry them.
constexpr Feature kFeatures[] = {
    {"quantization_config", "quantized weights", never_off},
    {"compression_config", "compressed weights", never_off},
    {"auto_map", "a model with its own Python code", off_when_empty},
    {"num_local_experts", "mixture of experts", off_when_zero},
    {"num_experts", "mixture of experts", off_when_zero},
    {"n_routed_experts", "mixture of experts", off_when_zero},
    {"no_rope_layers", "layers without rotary embedding", off_when_all_on},
    {"partial_rotary_factor", "rotary embedding of a part of each head", off_when_one},
    {"rotary_pct", "rotary embedding of a part of each head", off_when_one},
    {"use_mrope", "multimodal rotary embedding", off_when_false},
    {"alibi", "ALiBi position bias", off_when_false},
    {"position_embedding_type", "this kind of position embedding", off_when_usual_position},
    {"dual_chunk_attention_config", "dual chunk attention", never_off},
    {"attention_chunk_size", "chunked attention", off_when_zero},
    {"attn_temperature_tuning", "attention temperature by position", off_when_zero},
    {"kv_lora_rank", "multi-head latent attention", off_when_zero},
    {"scale_attn_by_inverse_layer_idx", "attention scaled by layer", off_when_false},
    {"reorder_and_upcast_attn", "reordered attention", off_when_false},
    {"add_cross_attention", "cross attention", off_when_false},
    {"is_encoder_decoder", "an encoder", off_when_false},
    {"vision_config", "images", off_when_empty},
    {"clip_qkv", "clipped q, k and v", off_when_zero},
    {"attn_logit_softcapping", "capped attention scores", off_when_zero},
    {"final_logit_softcapping", "capped logits", off_when_zero},
    {"query_pre_attn_scalar", "its own attention scale", never_off},
    {"attention_multiplier", "its own attention scale", never_off},
    {"embedding_multiplier", "scaled embeddings", off_when_one},
    {"scale_emb", "scaled embeddings", off_when_one},
    {"residual_multiplier", "scaled residuals", off_when_one},
    {"scale_depth", "scaled residuals", never_off},
    {"logits_scaling", "scaled logits", off_when_one},
    {"logit_scale", "scaled logits", off_when_one},
    {"use_parallel_residual", "parallel attention and MLP", off_when_false},
    {"parallel_attn", "parallel attention and MLP", off_when_false},
    {"pruned_heads", "pruned heads", off_when_empty},
};

std::string detail(const Feature& feature, const json& value) {
  if (!value.is_object()) return cat(" (", shown(value), ")");
  const auto method = value.find("quant_method");
  return method != value.end() && method->is_string() && std::string(feature.key) == "quantization_config"
             ? cat(" (", shown(*method), ")")
             : "";
}

}  // namespace

void report_refused_features(const json& config, Problems& problems) {
  for (const Feature& feature : kFeatures) {
    const auto it = config.find(feature.key);
    if (it == config.end() || it->is_null() || feature.off(*it)) continue;
    problems.add(cat(feature.key, detail(feature, *it), ": ", feature.what, " is not supported"));
  }
}

}  // namespace zt::spec
