#include "recipe/tree.h"

#include <chrono>

#include "base/random.h"
#include "unit/recipe/support.h"

namespace zt::recipe {

TEST_CASE("faults of syntax name line and column") {
  CHECK(has(error_of("run:\n  name: [1, 2\n"), "not valid YAML"));
  for (const char* quoted : {"\"abc", "'abc", "\"abc\\\"", "'a''"}) {
    CAPTURE(quoted);
    CHECK(has(error_of(cat("run:\n  name: ", quoted, "\n  seed: 1\n")),
              "line 2, column 9: the quote that opens here never closes"));
  }
  CHECK(error_of(kSmall + "run: {name: \"a\n  b\"}") == "no error");
  CHECK(error_of(kSmall + "run:\n  name: |\n    a b") == "no error");
  CHECK(has(error_of("run: {name: \xff}\n"), "line 1, column 13: byte 0xff isn't UTF-8"));
  CHECK(has(error_of("  run: x\n seed: y\n"), "line 2, column 1: a second YAML document starts here"));
  CHECK(has(error_of("run: {a: 1}}\n"), "line 1, column 12"));
  CHECK(has(error_of("run:\n\tname: x\n"), "line 2, column"));
  CHECK(has(error_of("run:\n\tname: x\n"), "a tab indents this line"));
  CHECK(has(error_of(std::string("run: {}\nx: \0y\n", 14)), "line 2, column 4: a control character (0x00)"));
  CHECK(has(error_of("a: *nowhere\n"), "line 1"));
  CHECK(has(error_of("? [a, b]\n: 1\n"), "a key must be a word"));
  CHECK(has(error_of(kSmall + "---\nrun: {}\n"), "a second YAML document"));
  CHECK(has(error_of("run: {seed: !!python/object 1}\n"), "has no meaning in a recipe"));
}

TEST_CASE("a recipe that isn't a map is refused") {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "\xEF\xBB\xBF"})
    CHECK(has(error_of(text), "the recipe is empty"));
  for (const char* text : {"- a\n- b\n", "word\n", "5\n", "[]"})
    CHECK(has(error_of(text), "line 1: a recipe must be a section with keys among run, model"));
}

TEST_CASE("a byte order mark and Windows line ends are read over") {
  std::string windows;
  for (const char c : kSmall) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(parse("\xEF\xBB\xBF" + windows, "r").recipe == parse(kSmall, "r").recipe);
}

TEST_CASE("anchors, aliases and merge keys are written out, own keys first") {
  const Loaded loaded = parse(
      "model: {base: m}\n"
      "data:\n  train:\n    - &a {path: a.txt, separator: --}\n    - {<<: *a, path: b.txt}\n    - *a\n"
      "train: {max_steps: 1}\n",
      "r.yaml");
  const auto& train = loaded.recipe.data.train;
  REQUIRE(train.size() == 3);
  CHECK(train[1] == Source{"b.txt", Format::text, "--"});
  CHECK(train[2] == train[0]);
  CHECK(has(error_of("run: {<<: 5}\n"), "`<<` merges"));
  CHECK(has(error_of("run: &a {x: *a}\n"), "an alias (*) inside the value it stands for"));
}

TEST_CASE("hostile recipes cost neither time nor memory") {
  const auto start = std::chrono::steady_clock::now();
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", merges = "a0: &a0 {k: v}\n";
  for (int i = 1; i < 30; ++i) {
    bomb += cat("a", i, ": &a", i, " [");
    merges += cat("a", i, ": &a", i, " {<<: [");
    for (int j = 0; j < 10; ++j) bomb += cat("*a", i - 1, ", ");
    for (int j = 0; j < 10; ++j) merges += cat("*a", i - 1, ", ");
    bomb += "]\n";
    merges += cat("], k", i, ": 1}\n");
  }
  std::string many = "a: [", maps, keys;
  for (int i = 0; i < 200'000; ++i) many += "1, ";
  for (int i = 0; i < 5'000; ++i) maps += "{a: ";
  for (int i = 0; i < 20'000; ++i) keys += cat("k", i, "x: 1\n");
  std::string indents;
  for (int i = 0; i < 2'000; ++i) indents += std::string(i, ' ') + "a:\n";
  const std::string text = "a: &a " + std::string(1'000'000, 'x') + "\nb: [*a" + [] {
    std::string s;
    for (int i = 0; i < 1000; ++i) s += ", *a";
    return s;
  }() + "]\n";
  CHECK(has(error_of(bomb), "more than 100,000 values"));
  CHECK(error_of(merges) != "no error");
  CHECK(has(error_of(many + "]"), "more than 100,000 values"));
  CHECK(has(error_of(text), "more than"));
  CHECK(error_of("a: " + std::string(100'000, '[')) != "no error");
  CHECK(has(error_of("a: " + std::string(100, '[') + std::string(100, ']')), "nested more than 32 deep"));
  CHECK(error_of("a: " + std::string(100'000, '[') + std::string(100'000, ']')) != "no error");
  CHECK(has(error_of("a: " + maps), "nested more than 32 deep"));
  CHECK(has(error_of(indents), "nested more than 32 deep"));
  CHECK(has(error_of(keys), "and 19903 more"));
  CHECK(error_of(std::string(50'000, '-') + " ") != "no error");
  CHECK(error_of(std::string(1'000'000, '&')) != "no error");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() < 30);
}

TEST_CASE("no cut and no flipped byte of a good recipe does worse than an error") {
  const std::string good = test::read_file(test::source_dir() / "recipes/shakespeare-char-cpu.yaml");
  REQUIRE(error_of(good) == "no error");
  const RandomStream random{1, Purpose::test, 0, 0};
  int refused = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      const Loaded loaded = parse(text, "r.yaml");
      if (parse(resolved_text(loaded), "again.yaml").recipe != loaded.recipe)
        FAIL("a round trip changed: " << text);
    } catch (const Error& e) {
      if (e.blame() != Blame::usage) FAIL("not the recipe's fault: " << e.what());
      ++refused;
    }
  };
  for (std::size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  const std::string marks = "{}[]:,#&*!|>'\"%@`-?\n\t <=0.";
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    std::string text = good;
    const auto w = random.words(i);
    for (std::uint32_t flips = 0; flips <= w[0] % 3; ++flips) {
      const auto v = random.words(i * 4 + flips + 100'000);
      text[v[0] % text.size()] = v[1] % 2 == 0 ? marks[v[2] % marks.size()] : static_cast<char>(v[2]);
    }
    attempt(text);
  }
  CHECK(refused > 2'000);
}

}  // namespace zt::recipe
