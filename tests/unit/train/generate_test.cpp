#include "train/generate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

namespace zt::train {

static const std::vector<float> kLogits = {1.f, 3.f, 2.f, 3.f, -1.f};

static std::map<std::int32_t, int> draws(const std::vector<float>& logits, const SamplingOptions& options,
                                         int count) {
  std::map<std::int32_t, int> counts;
  for (int n = 0; n < count; ++n) ++counts[sample(logits, options, static_cast<std::uint64_t>(n))];
  return counts;
}

TEST_CASE("sample: greedy, temperature 0 and top-p 0 take the first of the most likely") {
  SamplingOptions greedy, cold, none;
  greedy.greedy = true;
  cold.temperature = 0;
  none.top_p = 0;
  for (std::uint64_t n = 0; n < 100; ++n) {
    CHECK(sample(kLogits, greedy, n) == 1);
    CHECK(sample(kLogits, cold, n) == 1);
    CHECK(sample(kLogits, none, n) == 1);
  }
}

TEST_CASE("sample: frequencies follow softmax(logits / temperature)") {
  constexpr int count = 40'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    SamplingOptions options;
    options.temperature = temperature;
    options.seed = 11;
    double total = 0, chi2 = 0;
    for (const float logit : kLogits) total += std::exp(logit / temperature);
    auto counts = draws(kLogits, options, count);
    for (std::size_t i = 0; i < kLogits.size(); ++i) {
      const double expected = count * std::exp(kLogits[i] / temperature) / total;
      chi2 += std::pow(counts[static_cast<std::int32_t>(i)] - expected, 2) / expected;
    }
    CAPTURE(temperature);
    CHECK(chi2 < 18.5);  // 4 degrees of freedom: exceeded by chance once in a thousand
  }
}

TEST_CASE("sample: top-p keeps the smallest set that reaches it") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};
  const std::vector<std::pair<double, std::size_t>> cases = {{0.39, 1}, {0.41, 2}, {0.69, 2},
                                                             {0.71, 3}, {0.91, 4}, {1.0, 4}};
  for (const auto& [top_p, kept] : cases) {
    CAPTURE(top_p);
    SamplingOptions options;
    options.top_p = top_p;
    const auto counts = draws(logits, options, 4000);
    CHECK(counts.size() == kept);
    CHECK(counts.contains(1));
    // Within the set the proportions stay: 0.4 of the kept mass is the likeliest's.
    const double mass = kept == 1 ? 0.4 : kept == 2 ? 0.7 : kept == 3 ? 0.9 : 1.0;
    CHECK(counts.at(1) / 4000.0 == doctest::Approx(0.4 / mass).epsilon(0.05));
  }
}

TEST_CASE("sample: huge logits and impossible tokens make no nonsense") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {-inf, 3e38f, -3e38f, 3e38f, -inf};
  const auto counts = draws(logits, {}, 2000);
  CHECK(counts.size() == 2);
  CHECK(counts.at(1) + counts.at(3) == 2000);
  CHECK(counts.at(1) == doctest::Approx(1000).epsilon(0.1));
}

TEST_CASE("sample: a draw is a function of seed and number") {
  SamplingOptions a, b;
  a.seed = 1;
  b.seed = 2;
  int same = 0;
  for (std::uint64_t n = 0; n < 200; ++n) {
    CHECK(sample(kLogits, a, n) == sample(kLogits, a, n));
    same += sample(kLogits, a, n) == sample(kLogits, b, n);
  }
  CHECK(same < 150);
}

}  // namespace zt::train
