#include "recipe/patterns.h"

#include <doctest/doctest.h>

#include <string>

#include "base/random.h"

namespace zt::recipe {

TEST_CASE("a star stands for any text, everything else for itself") {
  CHECK(matches("transformer.wte.weight", "transformer.wte.weight"));
  CHECK(matches("*", ""));
  CHECK(matches("*", "model.norm.weight"));
  CHECK(matches("transformer.h.*.ln_*.bias", "transformer.h.11.ln_2.bias"));
  CHECK(matches("*.weight", "lm_head.weight"));
  CHECK(matches("model.layers.1.*", "model.layers.1.mlp.up_proj.weight"));
  CHECK_FALSE(matches("model.layers.1.*", "model.layers.11.mlp.up_proj.weight"));
  CHECK_FALSE(matches("wte", "transformer.wte.weight"));
  CHECK_FALSE(matches("*.wte", "transformer.wte.weight"));
  CHECK_FALSE(matches("transformer.wte.weight.", "transformer.wte.weight"));
  CHECK_FALSE(matches("transformerxwte", "transformer.wte"));
  CHECK_FALSE(matches("transformer.wte", "transformerxwte"));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("", ""));
}

// The definition, by trying every length of every star.
static bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*')
    return !name.empty() && name[0] == pattern[0] && fits(pattern.substr(1), name.substr(1));
  for (std::size_t taken = 0; taken <= name.size(); ++taken)
    if (fits(pattern.substr(1), name.substr(taken))) return true;
  return false;
}

TEST_CASE("matching agrees with its definition on random short texts") {
  const RandomStream random{1, Purpose::test, 0, 0};
  int hits = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const auto w = random.words(i);
    std::string pattern, name;
    for (std::uint32_t k = 0; k < w[0] % 7; ++k) pattern += "aab**"[w[1] >> (3 * k) & 3];
    for (std::uint32_t k = 0; k < w[2] % 9; ++k) name += "ab"[w[3] >> k & 1];
    if (matches(pattern, name) != fits(pattern, name)) FAIL(pattern << " on " << name);
    hits += matches(pattern, name);
  }
  CHECK(hits > 1'000);
  CHECK(hits < 19'000);
}

TEST_CASE("a pattern of many stars costs no more than the product of the lengths") {
  std::string pattern;
  for (int i = 0; i < 1'000; ++i) pattern += "a*";
  CHECK_FALSE(matches(pattern + "b", std::string(20'000, 'a')));
}

}  // namespace zt::recipe
