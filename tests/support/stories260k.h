// The published model stories260K, which comes in llama2.c's own form, as a Hugging Face folder.
#pragma once

#include <filesystem>

namespace zt::test {

// Reads `bin` (weights) and `tok` (tokenizer) and writes config.json, model.safetensors (F32, tied),
// tokenizer.json and tokenizer_config.json into `dir`. Throws std::runtime_error when a file is not what it
// should be. Source: karpathy/llama2.c, run.c (memory_map_weights, build_tokenizer).
void write_stories260k(const std::filesystem::path& bin, const std::filesystem::path& tok,
                       const std::filesystem::path& dir);

}  // namespace zt::test
