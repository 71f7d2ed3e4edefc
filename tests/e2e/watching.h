// A small run for tests of what people watch it by, and the browser that shows them pages.
#pragma once

#include <doctest/doctest.h>

#include "base/text.h"
#include "e2e/browser.h"
#include "e2e/program.h"

namespace zt::test {

class WatchDesk : public Desk {
 public:
  WatchDesk() {
    write("recipe.yaml", R"(run: {name: small, output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 4,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}
tokenizer: {type: byte}
data:
  sequence_length: 32
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {max_steps: 40, micro_batch_size: 1, global_batch_size: 4, eval_every: 10}
optimizer: {learning_rate: 3e-3}
lr_schedule: {name: cosine, warmup_steps: 4}
checkpoint: {every_steps: 10}
)");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += cat("Line ", i, " says that the quick brown fox jumps over the lazy dog.\n");
    write("text.txt", text);
  }

  Outcome train(const Words& more) const {
    Words words = {"--recipe", "recipe.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return o;
  }
};

}  // namespace zt::test
