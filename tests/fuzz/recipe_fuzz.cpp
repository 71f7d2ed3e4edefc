// Any bytes as a recipe. Parts after a byte 0xFF are `--set` overrides.
#include "hostile.h"
#include "recipe/recipe.h"

using namespace zt;

namespace {

// Aliases and merges may write out 100,000 values.
constexpr fuzz::Bound kBound{64 << 20, 4096};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, bytes] = fuzz::input_of(data, size);
  std::vector<std::string> sets = fuzz::parts(bytes, 8);
  const std::string text = sets.front();
  sets.erase(sets.begin());
  fuzz::survives(size, kBound, Blame::usage, [&] {
    const recipe::Loaded loaded = recipe::parse(text, "fuzz.yaml", sets, 1 + int(choice % 4));
    // What a run notes down is the same recipe.
    const recipe::Loaded again = recipe::parse(recipe::resolved_text(loaded), "fuzz.yaml");
    FUZZ_CHECK(again.recipe == loaded.recipe);
  });
  return 0;
}
