#include "support/known_models.h"

#include <nlohmann/json.hpp>

namespace zt::test {

spec::ModelSpec llama2_70b() {
  return spec::from_config({{"model_type", "llama"},
                            {"hidden_size", 8192},
                            {"num_hidden_layers", 80},
                            {"num_attention_heads", 64},
                            {"num_key_value_heads", 8},
                            {"intermediate_size", 28672},
                            {"vocab_size", 32000},
                            {"max_position_embeddings", 4096}},
                           "Llama-2-70B");
}

}  // namespace zt::test
