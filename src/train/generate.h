// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/decoder.h"

namespace zt::train {

struct SamplingOptions {
  bool greedy = false;
  double temperature = 1.0;
  double top_p = 1.0;  // the smallest set of most likely tokens whose probabilities reach this
  std::int64_t max_tokens = 200;
  std::uint64_t seed = 0;
};

// The next token; `number` counts draws, so that a text is a pure function of (seed, prompt, options).
// Source of top-p: Holtzman et al. 2020, section 3.1.
std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t number);

// Throws Error(usage) when a prompt is empty or longer than `capacity` tokens.
void require_prompt(std::span<const std::int32_t> prompt, std::int64_t capacity);

// Feeds `prompt` (at least one id), then draws until max_tokens or a token of `stop`. When the context is
// full, the model goes on from the last half of it. `emit` gets each new token. Returns the new tokens, a
// stop token left out.
std::vector<std::int32_t> generate(exec::Decoder& decoder, std::span<const std::int32_t> prompt,
                                   std::span<const int> stop, const SamplingOptions& options,
                                   const std::function<void(std::int32_t)>& emit);

}  // namespace zt::train
