// The trained model tinystories-656K, and how the tests train it on.
#pragma once

#include <filesystem>
#include <string>

#include "base/text.h"
#include "support/paths.h"

namespace zt::test {

// A copy of tinystories-656K with one of its two weight files.
inline bool copy_tinystories(const std::string& weights, const std::filesystem::path& to) {
  const auto from = test_data("models/tinystories-656K");
  if (!from) return false;
  std::filesystem::create_directories(to);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                           "special_tokens_map.json"})
    std::filesystem::copy_file(*from / name, to / name);
  std::filesystem::copy_file(*from / weights, to / "model.safetensors");
  return true;
}

// Sixty steps of eight rows, `rows` at a time; the model lies in the folder `model`, the run leaves `out`.
inline std::string fine_tuning_recipe(const std::string& text, int rows) {
  return cat(
      "run: {output_dir: out}\n"
      "model: {base: model}\n"
      "data:\n"
      "  sequence_length: 256\n"
      "  train: [{path: ",
      text,
      "}]\n"
      "  validation: {fraction: 0.03}\n"
      "train: {max_steps: 60, micro_batch_size: ",
      rows,
      ", global_batch_size: 8, eval_every: 30}\n"
      "optimizer: {learning_rate: 5e-4, weight_decay: 0.0}\n"
      "lr_schedule: {name: cosine, warmup_steps: 6}\n");
}

}  // namespace zt::test
