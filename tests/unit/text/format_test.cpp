// What tokenizer.json can say, case by case, with small tokenizers made by hand.
#include <array>
#include <chrono>
#include <thread>

#include "folders.h"
#include "text/byte_alphabet.h"

namespace zt::text {
namespace {

// All bytes, ids as byte values.
TestJson byte_level() {
  TestJson vocab = TestJson::object();
  for (int b = 0; b < 256; ++b) vocab[byte_alphabet()[std::size_t(b)]] = b;
  TestJson d = with_model(vocab, TestJson::array());
  d["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  d["decoder"] = {{"type", "ByteLevel"}};
  return d;
}

// The pieces that a pre-tokenizer makes: with ignore_merges every expected piece is one token.
void check_pieces(const TestJson& pre_tokenizer, const std::string& text,
                  const std::vector<std::string>& pieces) {
  TestJson d = byte_level();
  d["model"]["ignore_merges"] = true;
  d["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {pre_tokenizer, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  int id = 256;
  for (const std::string& piece : pieces) {
    std::string spelled;
    for (const char b : piece) spelled += byte_alphabet()[static_cast<unsigned char>(b)];
    if (!d["model"]["vocab"].contains(spelled)) d["model"]["vocab"][spelled] = id++;
  }
  const auto t = loaded(d);
  std::vector<std::string> got;
  for (const std::int32_t i : t->encode(text)) got.push_back(t->decode(Ids{i}));
  CAPTURE(text);
  CHECK(got == pieces);
}

TestJson split(const std::string& regex, const std::string& behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}

double seconds_to_encode(const Tokenizer& t, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  t.encode(text);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("format: a character without a token becomes its bytes only if the file says so") {
  TestJson d = with_model({{"<unk>", 0}, {"<0x0A>", 1}, {"a", 2}}, TestJson::array());
  d["model"]["unk_token"] = "<unk>";
  CHECK(loaded(d)->encode("\n") == Ids{0});
  d["model"]["byte_fallback"] = true;
  CHECK(loaded(d)->encode("\n") == Ids{1});
  // One byte of the two is missing: the whole character is unknown.
  d["model"]["vocab"]["<0xC3>"] = 3;
  CHECK(loaded(d)->encode("a\u00e9") == Ids{2, 0});
  d["model"]["vocab"]["<0xA9>"] = 4;
  CHECK(loaded(d)->encode("a\u00e9") == Ids{2, 3, 4});
}

TEST_CASE("format: neighbouring unknown characters are one unknown token only with fuse_unk") {
  TestJson d = with_model({{"<unk>", 0}, {"a", 1}}, TestJson::array());
  d["model"]["unk_token"] = "<unk>";
  CHECK(loaded(d)->encode("xxaxx") == Ids{0, 0, 1, 0, 0});
  d["model"]["fuse_unk"] = true;
  CHECK(loaded(d)->encode("xxaxx") == Ids{0, 1, 0});
}

TEST_CASE("format: a character without a token and without an unknown token is an error that names it") {
  const auto t = loaded(with_model({{"a", 0}}, TestJson::array()));
  CHECK_THROWS_WITH_AS(t->encode("aaz"), doctest::Contains("no token for 'z' (U+007A)"), Error);
  CHECK_THROWS_WITH_AS(t->encode("a\n"), doctest::Contains("control character (U+000A)"), Error);
}

TEST_CASE("format: special tokens in raw text obey their flags, and are never found in content") {
  TestJson vocab = {{"</s>", 0}};
  for (const char c : std::string(" abI.</s>_")) vocab[std::string(1, c)] = int(vocab.size());
  const auto id = [&](const char* token) { return vocab[token].get<std::int32_t>(); };
  const auto with = [&](const TestJson& flags) {
    TestJson d = with_model(vocab, TestJson::array());
    d["added_tokens"].push_back(added(0, "</s>", flags));
    return loaded(d);
  };
  CHECK(with(TestJson::object())->encode_with_specials("I.</s>") == Ids{id("I"), id("."), 0});
  CHECK(with(TestJson::object())->encode("</s>") == Ids{id("<"), id("/"), id("s"), id(">")});
  CHECK(with(TestJson::object())->encode_with_specials("a </s> b") ==
        Ids{id("a"), id(" "), 0, id(" "), id("b")});
  CHECK(with({{"lstrip", true}})->encode_with_specials("a </s>b") == Ids{id("a"), 0, id("b")});
  CHECK(with({{"rstrip", true}})->encode_with_specials("a </s>  b") == Ids{id("a"), id(" "), 0, id("b")});
  CHECK(with({{"lstrip", true}, {"rstrip", true}})->encode_with_specials("</s> </s>") == Ids{0, 0});
  const auto alone = with({{"single_word", true}});
  CHECK(alone->encode_with_specials("a</s>") == alone->encode("a</s>"));
  CHECK(alone->encode_with_specials("</s>_") == alone->encode("</s>_"));
  CHECK(alone->encode_with_specials("a </s>.") == Ids{id("a"), id(" "), 0, id(".")});
}

TEST_CASE("format: an added token that is not special is an ordinary word, found in content too") {
  TestJson d = with_model({{"a", 0}, {"b", 1}}, TestJson::array());
  d["added_tokens"] = {added(2, "ab", {{"special", false}}), added(3, "abab", {{"special", false}})};
  CHECK(loaded(d)->encode("aababab") == Ids{0, 3, 2});  // the longest first
  CHECK(loaded(d)->vocabulary() == 4);
}

TEST_CASE("format: a token with a role is a control token, whatever the list of added tokens calls it") {
  TestJson d = with_model({{"<", 0}, {"e", 1}, {">", 2}}, TestJson::array());
  d["added_tokens"] = {added(3, "<e>", {{"special", false}})};
  CHECK(loaded(d)->encode("<e>") == Ids{3});
  const auto t = loaded(d, {{"eos_token", "<e>"}});
  CHECK(t->is_special(3));
  CHECK(t->encode("<e>") == Ids{0, 1, 2});
  CHECK(t->encode_with_specials("<e>") == Ids{3});
}

TEST_CASE("format: a normalized added token is looked for in the normalized text") {
  TestJson d = with_model({{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"b", 3}}, TestJson::array());
  d["model"]["unk_token"] = "<unk>";
  d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  d["added_tokens"] = {added(4, "a b", {{"normalized", true}})};
  CHECK(loaded(d)->encode_with_specials("\u2581a b") == Ids{1, 4});
  CHECK(loaded(d)->encode_with_specials("a\u2581b") == Ids{4});
  d["added_tokens"][0]["normalized"] = false;
  CHECK(loaded(d)->encode_with_specials("a\u2581b") == Ids{2, 1, 3});
}

TEST_CASE("format: merges as texts and as pairs give the same ids, and a pair may hold a space") {
  const TestJson vocab = {{"a", 0},  {"b", 1},   {"c", 2},  {" ", 3},
                          {"ab", 4}, {"abc", 5}, {"a ", 6}, {"a b", 7}};
  const auto texts = loaded(with_model(vocab, {"a b", "ab c"}));
  const auto pairs = loaded(with_model(vocab, TestJson::parse(R"([["a", "b"], ["ab", "c"]])")));
  for (const char* text : {"abc", "aabbcc", "cabab", "a b c"})
    CHECK(texts->encode(text) == pairs->encode(text));
  CHECK(texts->encode("aabc") == Ids{0, 5});
  CHECK(loaded(with_model(vocab, TestJson::parse(R"([["a", " "], ["a ", "b"]])")))->encode("a bc") ==
        Ids{7, 2});
}

TEST_CASE("format: the pair of lowest rank merges first, and of equals the leftmost") {
  const TestJson vocab = {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"aa", 5}};
  CHECK(loaded(with_model(vocab, {"b c", "a b"}))->encode("abc") == Ids{0, 3});
  CHECK(loaded(with_model(vocab, {"a b", "b c"}))->encode("abc") == Ids{4, 2});
  CHECK(loaded(with_model(vocab, {"a a"}))->encode("aaaaa") == Ids{5, 5, 0});
}

TEST_CASE("format: short and long words merge alike") {
  // A word of n letters is merged by scanning when short and through a heap when long: both against the
  // definition.
  const TestJson vocab = {{"a", 0}, {"b", 1}, {"ab", 2}, {"aba", 4}, {"abab", 5}, {"bb", 6}};
  const auto t = loaded(with_model(vocab, {"a b", "ab ab", "ab a", "b b"}));
  const std::vector<std::array<int, 3>> rules = {{0, 1, 2}, {2, 2, 5}, {2, 0, 4}, {1, 1, 6}};
  std::uint32_t state = 1;
  for (std::size_t length = 0; length < 120; ++length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i)
      text += (state = state * 1664525u + 1013904223u) >> 31 ? 'a' : 'b';
    Ids slow;
    for (const char c : text) slow.push_back(c == 'a' ? 0 : 1);
    for (bool merged = true; merged;) {
      merged = false;
      for (std::size_t r = 0; r < rules.size() && !merged; ++r)
        for (std::size_t i = 0; i + 1 < slow.size() && !merged; ++i)
          if (slow[i] == rules[r][0] && slow[i + 1] == rules[r][1]) {
            slow[i] = rules[r][2];
            slow.erase(slow.begin() + std::ptrdiff_t(i) + 1);
            merged = true;
          }
    }
    CAPTURE(text);
    CHECK(t->encode(text) == slow);
  }
}

TEST_CASE("format: ignore_merges takes a piece that is a token as it is") {
  TestJson d = with_model({{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"abc", 4}}, {"a b"});
  CHECK(loaded(d)->encode("abc") == Ids{3, 2});
  d["model"]["ignore_merges"] = true;
  CHECK(loaded(d)->encode("abc") == Ids{4});
  CHECK(loaded(d)->encode("abcc") == Ids{3, 2, 2});
}

TEST_CASE("format: splitters cut as the reference does") {
  const std::string llama3 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const TestJson gpt2 =
      split("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");
  check_pieces(split(llama3), "1234", {"123", "4"});
  check_pieces(split(llama3), "I'LL", {"I", "'LL"});
  check_pieces(split(llama3), "a  b", {"a", " ", " b"});
  check_pieces(gpt2, "1234 I'LL I'll", {"1234", " I", "'", "LL", " I", "'ll"});
  check_pieces(gpt2, "a  b\n\n", {"a", " ", " b", "\n\n"});
  // U+180E is no white space since Unicode 6.3, whatever the engine thinks.
  check_pieces(split("\\s+"), "a\u180e b", {"a\u180e", " ", "b"});
  check_pieces({{"type", "Digits"}, {"individual_digits", true}}, "ab12", {"ab", "1", "2"});
  check_pieces({{"type", "Digits"}, {"individual_digits", false}}, "ab12c", {"ab", "12", "c"});
  check_pieces({{"type", "Whitespace"}}, "Hey, you_2 !?", {"Hey", ",", "you_2", "!?"});
  check_pieces({{"type", "WhitespaceSplit"}}, " Hey,  you", {"Hey,", "you"});
  check_pieces({{"type", "Punctuation"}}, "a, b$", {"a", ",", " b", "$"});
}

TEST_CASE("format: Split obeys its behavior") {
  // The example of the tokenizers library's documentation: "the-final--countdown" at "-".
  const std::string text = "the-final--countdown";
  check_pieces(split("-", "Removed"), text, {"the", "final", "countdown"});
  check_pieces(split("-", "Isolated"), text, {"the", "-", "final", "-", "-", "countdown"});
  check_pieces(split("-", "MergedWithPrevious"), text, {"the-", "final-", "-", "countdown"});
  check_pieces(split("-", "MergedWithNext"), text, {"the", "-final", "-", "-countdown"});
  check_pieces(split("-", "Contiguous"), text, {"the", "-", "final", "--", "countdown"});
  check_pieces(split("[a-z]+", "Removed", true), text, {"the", "final", "countdown"});
}

TEST_CASE("format: Metaspace marks spaces and prepends as its scheme says") {
  TestJson d = with_model({{"<s>", 0}, {"\u2581", 1}, {"a", 2}, {"\u2581a", 3}}, {"\u2581 a"});
  d["added_tokens"].push_back(added(0, "<s>"));
  const auto with = [&](const char* scheme) {
    d["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", true}};
    d["decoder"] = d["pre_tokenizer"];
    return loaded(d);
  };
  CHECK(with("always")->encode_with_specials("a a<s>a") == Ids{3, 3, 0, 3});
  CHECK(with("first")->encode_with_specials("a a<s>a") == Ids{3, 3, 0, 2});
  CHECK(with("never")->encode_with_specials("a a<s>a") == Ids{2, 3, 0, 2});
  for (const char* scheme : {"always", "first", "never"})
    CHECK(with(scheme)->decode(with(scheme)->encode("a a a")) == "a a a");
}

TEST_CASE("format: a continuation has no space put before it, whichever step would put it") {
  const auto model = [] {
    return with_model({{"\u2581", 0}, {"a", 1}, {"b", 2}, {"\u2581a", 3}, {"ab", 4}, {"<s>", 5}},
                      {"\u2581 a", "a b"});
  };
  TestJson normalized = model();
  normalized["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  for (const char* scheme : {"normalizer", "always", "first", "never"}) {
    CAPTURE(scheme);
    TestJson d = std::string(scheme) == "normalizer" ? normalized : model();
    if (d == model())
      d["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", scheme}, {"split", true}};
    d["added_tokens"].push_back(added(5, "<s>", {{"special", false}}));
    const auto t = loaded(d);
    CHECK(t->encode("a a") == (std::string(scheme) == "never" ? Ids{1, 3} : Ids{3, 3}));
    CHECK(t->encode_continuation("a a") == Ids{1, 3});
    CHECK(t->encode_continuation("") == Ids{});
    // What was asked for is there: the text's own space.
    CHECK(t->encode_continuation(" a") == Ids{3});
    // Only the joint is special: what follows an added token is as anywhere.
    const bool everywhere = std::string(scheme) == "always" || std::string(scheme) == "normalizer";
    CHECK(t->encode_continuation("a<s>a") == Ids{1, 5, everywhere ? 3 : 1});
  }
  TestJson bytes = byte_level();
  bytes["pre_tokenizer"]["add_prefix_space"] = true;
  CHECK(loaded(bytes)->encode("a") == Ids{' ', 'a'});
  CHECK(loaded(bytes)->encode_continuation("a") == Ids{'a'});
}

TEST_CASE("format: prompt and answer in two pieces never share a token") {
  TestJson d = with_model({{"a", 0}, {"b", 1}, {"ab", 2}}, {"a b"});
  const auto t = loaded(d);
  CHECK(t->encode("ab") == Ids{2});
  Ids joined = t->encode("a");
  for (const std::int32_t id : t->encode_continuation("b")) joined.push_back(id);
  CHECK(joined == Ids{0, 1});
  CHECK(t->decode(joined) == "ab");
}

TEST_CASE("format: normalizers rewrite before splitting") {
  TestJson d = byte_level();
  const auto text_after = [&](const TestJson& normalizer, const std::string& text) {
    d["normalizer"] = normalizer;
    const auto t = loaded(d);
    return t->decode(t->encode(text));
  };
  CHECK(text_after({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " \n a b ") == "a b ");
  CHECK(text_after({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a b \u00a0") ==
        " a b");
  CHECK(text_after({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, "  ") == "");
  CHECK(text_after({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "_"}}, "a   b c") ==
        "a_b c");
  CHECK(text_after({{"type", "Prepend"}, {"prepend", "x"}}, "") == "");
  CHECK(text_after({{"type", "NFD"}}, "\u00e9") == "e\u0301");
  CHECK(text_after({{"type", "NFKC"}}, "\u2460\ufb01") == "1fi");
}

TEST_CASE("format: byte tokens decode to characters, and to U+FFFD where they are none") {
  TestJson d = with_model({{"<0xE2>", 0}, {"<0x96>", 1}, {"<0x81>", 2}, {"a", 3}}, TestJson::array());
  d["model"]["byte_fallback"] = true;
  d["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  const auto t = loaded(d);
  CHECK(t->decode(t->encode("a\u2581a")) == "a\u2581a");
  CHECK(t->decode(Ids{3, 0, 1}) == "a\uFFFD\uFFFD");
  CHECK_THROWS_WITH_AS(t->decode(Ids{4}),
                       doctest::Contains("id 4 has no token; the vocabulary has ids 0 to 3"), Error);
}

TEST_CASE("format: BOS and EOS come from the configuration first, then from the template") {
  TestJson d = with_model({{"a", 0}, {"<s>", 1}, {"</s>", 2}, {"<p>", 3}}, TestJson::array());
  CHECK_FALSE(loaded(d)->adds_bos());
  CHECK_FALSE(loaded(d)->bos().has_value());
  d["post_processor"] = {{"type", "TemplateProcessing"},
                         {"single",
                          {{{"SpecialToken", {{"id", "<s>"}}}},
                           {{"Sequence", {{"id", "A"}}}},
                           {{"SpecialToken", {{"id", "</s>"}}}}}}};
  CHECK(loaded(d)->bos() == 1);
  CHECK(loaded(d)->eos() == 2);
  CHECK(loaded(d)->adds_bos());
  CHECK(loaded(d)->adds_eos());
  const auto off = loaded(d, {{"bos_token", "<s>"},
                              {"eos_token", {{"content", "<p>"}}},
                              {"add_bos_token", false},
                              {"add_eos_token", false}});
  CHECK(off->bos() == 1);
  CHECK(off->eos() == 3);
  CHECK(off->is_special(3));
  CHECK_FALSE(off->adds_bos());
  CHECK_FALSE(off->adds_eos());
}

TEST_CASE("format: BOS and EOS fall back to special_tokens_map.json and config.json") {
  const test::ScratchDir dir;
  dir.write("tokenizer.json", with_model({{"a", 0}, {"<s>", 1}, {"</s>", 2}}, TestJson::array()).dump());
  dir.write("config.json", R"({"bos_token_id": 1, "eos_token_id": [2, 0]})");
  CHECK(load_tokenizer(dir.path())->bos() == 1);
  CHECK(load_tokenizer(dir.path())->eos() == 2);
  dir.write("special_tokens_map.json", R"({"eos_token": {"content": "a"}})");
  CHECK(load_tokenizer(dir.path())->eos() == 0);
  CHECK(load_tokenizer(dir.path())->bos() == 1);
}

TEST_CASE("format: added_tokens.json adds ordinary words") {
  const test::ScratchDir dir;
  dir.write("tokenizer.json", with_model({{"a", 0}, {"b", 1}}, TestJson::array()).dump());
  dir.write("added_tokens.json", R"({"ab": 2, "ba": 3})");
  const auto t = load_tokenizer(dir.path());
  CHECK(t->encode("aabba") == Ids{0, 2, 3});
  CHECK_FALSE(t->is_special(2));
  CHECK(t->vocabulary() == 4);
}

TEST_CASE("format: the folder's files are exported byte for byte, and only the tokenizer's") {
  const test::ScratchDir dir;
  const std::string description = with_model({{"a", 0}}, TestJson::array()).dump(3) + "\n\n";
  dir.write("tokenizer.json", description);
  dir.write("chat_template.jinja", "{{ x }}");
  dir.write("model.safetensors", "no");
  const auto files = load_tokenizer(dir.path())->files();
  REQUIRE(files.size() == 2);
  CHECK(files[0] == std::pair<std::string, std::string>("tokenizer.json", description));
  CHECK(files[1] == std::pair<std::string, std::string>("chat_template.jinja", "{{ x }}"));
}

TEST_CASE("format: long words take time in proportion") {
  // A quadratic way would take hours for these; the bound is generous for slow machines and sanitizers.
  TestJson a = {{"a", 0}};
  TestJson merges = TestJson::array();
  std::string run = "a";
  for (int id = 1; id < 12; ++id, run += run) {
    a[run + run] = id;
    merges.push_back({run, run});
  }
  const auto doubling = loaded(with_model(a, merges));
  CHECK(seconds_to_encode(*doubling, std::string(1 << 20, 'a')) < 100);
  CHECK(doubling->encode(std::string(1 << 13, 'a')) == Ids(4, 11));
  if (const auto gpt2 = published("gpt2")) {
    CHECK(seconds_to_encode(*gpt2, std::string(1 << 20, 'a')) < 100);
    CHECK(seconds_to_encode(*gpt2, std::string(1 << 20, ' ')) < 100);
    CHECK(seconds_to_encode(*gpt2, std::string(1 << 20, '\n')) < 100);
  }
  if (const auto llama2 = published("llama2")) {
    std::string characters;
    std::uint32_t state = 1;
    while (characters.size() < 1 << 20) {
      const std::uint32_t code = (state = state * 1664525u + 1013904223u) >> 21;  // below 2048
      characters += code < 128 ? std::string(1, char(code))
                               : std::string{char(0xC0 | code >> 6), char(0x80 | (code & 63))};
    }
    CHECK(seconds_to_encode(*llama2, characters) < 100);
    CHECK(llama2->decode(llama2->encode(characters)) == characters);
  }
}

TEST_CASE("format: one tokenizer serves several threads") {
  const auto t = published("gpt2");
  const auto path = test::test_data("text/the-verdict.txt");
  if (!t || !path) return;
  const std::string text = test::read_file(*path);
  const Ids want = t->encode(text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& mine : got) threads.emplace_back([&] { mine = t->encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& mine : got) CHECK(mine == want);
}

}  // namespace zt::text
