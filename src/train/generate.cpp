#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace zt::train {

std::int32_t sample(std::span<const float> logits, const SamplingOptions& o, std::uint64_t number) {
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  if (o.greedy || o.temperature <= 0) return best;
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](std::int32_t a, std::int32_t b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
  std::vector<double> weight;
  double total = 0;
  for (const std::int32_t id : order) {
    weight.push_back(std::exp((double(logits[std::size_t(id)]) - logits[std::size_t(best)]) / o.temperature));
    total += weight.back();
  }
  std::size_t kept = 0;
  double mass = 0;
  while (kept < order.size() && mass < o.top_p * total) mass += weight[kept++];
  const RandomStream random{o.seed, Purpose::sampling, 0, 0};
  double left = static_cast<double>(random.u64(number)) * 0x1p-64 * mass;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weight[i];
    if (left < 0) return order[i];
  }
  return best;
}

// Begins the context anew with the last half of what fits of `text`.
static std::span<const float> restart(exec::Decoder& decoder, std::span<const std::int32_t> text) {
  decoder.clear();
  std::span<const float> logits;
  for (const std::int32_t id : text.last(static_cast<std::size_t>((decoder.capacity() + 1) / 2)))
    logits = decoder.step(id);
  return logits;
}

void require_prompt(std::span<const std::int32_t> prompt, std::int64_t capacity) {
  if (prompt.empty())
    throw Error(Blame::usage, "the prompt is empty and the tokenizer has no beginning token",
                "give --prompt");
  if (static_cast<std::int64_t>(prompt.size()) > capacity)
    throw Error(Blame::usage,
                cat("the prompt has ", prompt.size(), " tokens; the model's context is ", capacity),
                "shorten --prompt");
}

std::vector<std::int32_t> generate(exec::Decoder& decoder, std::span<const std::int32_t> prompt,
                                   std::span<const int> stop, const SamplingOptions& options,
                                   const std::function<void(std::int32_t)>& emit) {
  require_prompt(prompt, decoder.capacity());
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::span<const float> logits;
  for (const std::int32_t id : prompt) logits = decoder.step(id);
  for (std::int64_t n = 0; n < options.max_tokens; ++n) {
    const std::int32_t id = sample(logits, options, static_cast<std::uint64_t>(n));
    if (std::ranges::find(stop, id) != stop.end()) break;
    text.push_back(id);
    emit(id);
    logits = decoder.length() < decoder.capacity() ? decoder.step(id) : restart(decoder, text);
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace zt::train
