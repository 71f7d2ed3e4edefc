// Tokenizer folders for tests: the real ones, and small ones made on the spot.
#pragma once

#include <doctest/doctest.h>
#include <stdio.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/paths.h"
#include "text/tokenizer.h"

namespace zt::text {

using Ids = std::vector<std::int32_t>;
using TestJson = nlohmann::ordered_json;

inline std::string unpacked(const std::filesystem::path& gz) {
  FILE* pipe = popen(("gzip -dc '" + gz.string() + "'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string bytes;
  char buffer[1 << 16];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) bytes.append(buffer, n);
  REQUIRE(pclose(pipe) == 0);
  return bytes;
}

// A published tokenizer by the name of its data folder, or null where the data is absent.
inline std::unique_ptr<Tokenizer> published(const std::string& name) {
  const auto folder = test::test_data("tokenizers/" + name);
  if (!folder) return nullptr;
  if (std::filesystem::exists(*folder / "tokenizer.json")) return load_tokenizer(*folder);
  const test::ScratchDir dir;
  dir.write("tokenizer.json", unpacked(*folder / "tokenizer.json.gz"));
  dir.write("tokenizer_config.json", test::read_file(*folder / "tokenizer_config.json"));
  return load_tokenizer(dir.path());
}

// The same tokenizer by its SentencePiece model, with its configuration, or null where the data is absent.
inline std::unique_ptr<Tokenizer> published_model(const std::string& name) {
  const auto folder = test::test_data("tokenizers/" + name);
  if (!folder) return nullptr;
  const test::ScratchDir dir;
  for (const char* file :
       {"tokenizer.model", "tokenizer.model.v1", "tokenizer.model.v3", "tokenizer_config.json"})
    if (std::filesystem::exists(*folder / file)) dir.write(file, test::read_file(*folder / file));
  return load_tokenizer(dir.path());
}

inline TestJson json_data(const std::filesystem::path& path) {
  return TestJson::parse(test::read_file(path));
}

// A tokenizer.json with this model and nothing else.
inline TestJson with_model(TestJson vocab, TestJson merges) {
  return {{"added_tokens", TestJson::array()},
          {"decoder", {{"type", "Fuse"}}},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}}}};
}

inline TestJson added(int id, const std::string& content, TestJson flags = TestJson::object()) {
  TestJson token = {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
  token.update(flags);
  return token;
}

inline std::unique_ptr<Tokenizer> loaded(const TestJson& description,
                                         const TestJson& config = TestJson::object()) {
  const test::ScratchDir dir;
  dir.write("tokenizer.json", description.dump());
  dir.write("tokenizer_config.json", config.dump());
  return load_tokenizer(dir.path());
}

// The text of the error that loading gives, or "" when there is none.
inline std::string refusal(const std::string& tokenizer_json) {
  const test::ScratchDir dir;
  dir.write("tokenizer.json", tokenizer_json);
  try {
    load_tokenizer(dir.path());
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    return e.what();
  }
  return "";
}

}  // namespace zt::text
