// Any bytes as a config.json. A model of thousands of layers is a small file that makes a long list, so what it may hold
// has a floor that doesn't depend on the size.
#include "exchange/json.h"
#include "hostile.h"
#include "spec/model.h"

using namespace zt;

namespace {

constexpr fuzz::Bound kBound{64 << 20, 512};

void check_model(const spec::ModelSpec& model, const nlohmann::json& config) {
  FUZZ_CHECK(model.parameters() > 0);
  FUZZ_CHECK(model.blocks.size() == std::size_t(model.layers) + 2);
  FUZZ_CHECK(!spec::describe(model).empty());
  // What is exported means the same model.
  FUZZ_CHECK(spec::from_config(spec::to_config(model, config), "exported") == model);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::survives(size, kBound, Blame::model, [&] {
    const nlohmann::json config = exchange::parse_json(text, "config.json");
    check_model(spec::from_config(config, "config.json"), config);
  });
  return 0;
}
