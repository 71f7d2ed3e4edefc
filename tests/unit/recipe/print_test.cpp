#include <cstdlib>
#include <fstream>

#include "recipe/table.h"
#include "unit/recipe/support.h"

namespace zt::recipe {

TEST_CASE("docs/keys.md is what the tables print; ZEROTRAIN_UPDATE=1 writes it anew") {
  const auto path = test::source_dir() / "docs/keys.md";
  if (std::getenv("ZEROTRAIN_UPDATE") != nullptr) std::ofstream(path) << manual_markdown();
  CHECK(test::read_file(path) == manual_markdown());
}

TEST_CASE("every key is in the key list, the manual, the schema and the resolved recipe") {
  const std::string keys = keys_text(), manual = manual_markdown(),
                    resolved = resolved_text(parse(kSmall, "r.yaml"));
  const nlohmann::ordered_json properties = schema()["properties"];
  for (const Section& section : sections()) {
    for (const RowText& row : section.rows) {
      CAPTURE(section.name);
      CAPTURE(row.name);
      CHECK(has(keys, cat("  ", section.name, ".", row.name, "  [")));
      CHECK(has(manual, cat("| `", row.name, "` |")));
      CHECK(has(resolved, cat("  ", row.name, ":")));
      CHECK_FALSE(row.meaning.empty());
      const auto& property = properties[section.name]["properties"][row.name];
      CHECK(property["description"].get<std::string>().size() > 5);
    }
  }
}

TEST_CASE("the key list of one section holds that section only, and a wrong name gets the nearest") {
  const std::string keys = keys_text("optimizer");
  CHECK(has(keys, "  optimizer.learning_rate  [2e-05]\n      number, between 0 and 10\n"));
  CHECK_FALSE(has(keys, "zero.stage"));
  CHECK_THROWS_WITH_AS(keys_text("optimiser"), doctest::Contains("did you mean optimizer?"), Error);
}

TEST_CASE("the schema bounds what the parser bounds") {
  const nlohmann::ordered_json all = schema();
  const auto& properties = all["properties"];
  CHECK(all["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(all["additionalProperties"] == false);
  CHECK(properties["zero"]["properties"]["stage"]["maximum"] == 3);
  CHECK(properties["optimizer"]["properties"]["betas"]["items"]["exclusiveMaximum"] == 1);
  CHECK(properties["train"]["properties"]["max_steps"]["type"] == nlohmann::ordered_json{"integer", "null"});
  CHECK(properties["data"]["properties"]["add_bos"]["enum"] == nlohmann::ordered_json{"auto", true, false});
  CHECK(properties["tokenizer"]["properties"]["type"]["enum"] ==
        nlohmann::ordered_json{"byte", "char", nullptr});
  CHECK(properties["data"]["properties"]["train"]["items"]["required"][0] == "path");
  for (const auto& [name, section] : properties.items()) CHECK(section["additionalProperties"] == false);
}

}  // namespace zt::recipe
