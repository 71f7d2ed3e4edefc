// Files and texts that are wrong: every one is refused by name, quickly, and without much memory.
#include <random>

#include "folders.h"

namespace zt::text {
namespace {

TestJson good() {
  TestJson d = with_model({{"a", 0}, {"b", 1}, {"ab", 2}}, {"a b"});
  d["added_tokens"].push_back(added(3, "<s>"));
  return d;
}

// `path` is a JSON pointer into a good file.
std::string refusal_with(const std::string& path, const TestJson& value) {
  TestJson d = good();
  d[TestJson::json_pointer(path)] = value;
  return refusal(d.dump());
}

}  // namespace

TEST_CASE("hostile: files that nest without end are refused before they are read") {
  const auto nested = [](int levels) {
    std::string text =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": ";
    for (int i = 0; i < levels; ++i) text += "{\"type\": \"Sequence\", \"normalizers\": [";
    for (int i = 0; i < levels; ++i) text += "]}";
    return text + "}";
  };
  CHECK(refusal(nested(200'000)).find("tokenizer.json nests deeper than 64 levels") != std::string::npos);
  CHECK(refusal(nested(32)).find("tokenizer.json nests deeper than 64 levels") != std::string::npos);
  CHECK(refusal(nested(31)).find("nests deeper") == std::string::npos);
  // Brackets in texts don't count.
  TestJson d = good();
  d["added_tokens"].push_back(added(4, std::string(100, '[') + "\\\"{"));
  CHECK(refusal(d.dump()) == "");
}

TEST_CASE("hostile: a number beyond all bounds is refused as such") {
  for (const char* const number : {"1e999", "-1e999"}) {
    CHECK(refusal(std::string("{\"version\": ") + number + "}")
              .find("tokenizer.json holds a number that is too large") != std::string::npos);
  }
}

TEST_CASE("hostile: merges.txt that is not UTF-8 is refused with the place") {
  const test::ScratchDir dir;
  dir.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  dir.write("merges.txt", "#version: 0.2\na b\n\xff");
  try {
    load_tokenizer(dir.path());
    FAIL("it was taken");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    CHECK(std::string(e.what()).ends_with(": merges.txt is not UTF-8 at byte 18"));
  }
}

TEST_CASE("hostile: what changes ids and is not implemented is refused by name") {
  struct Case {
    const char* path;
    TestJson value;
    const char* expected;
  };
  const Case cases[] = {
      {"/model/type", "Unigram", "model of type Unigram is not supported"},
      {"/model/type", "WordPiece", "model of type WordPiece is not supported"},
      {"/model/dropout", 0.1, "model.dropout is not supported"},
      {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix is not supported"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix is not supported"},
      {"/model/new_option", 1, "model: option new_option is not supported"},
      {"/new_section", 1, "tokenizer.json: option new_section is not supported"},
      {"/normalizer", {{"type", "Lowercase"}}, "normalizer of type Lowercase is not supported"},
      {"/pre_tokenizer",
       {{"type", "BertPreTokenizer"}},
       "pre_tokenizer of type BertPreTokenizer is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}},
       "escape \\w is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[a-z&&[^b]]"}}}, {"behavior", "Isolated"}},
       "intersection of sets is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
       "missing closing parenthesis"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sideways"}},
       "behavior Sideways is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}},
       "pattern.String is empty"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}},
       "Digits after ByteLevel is not supported"},
      {"/decoder", {{"type", "CTC"}}, "decoder of type CTC is not supported"},
      {"/post_processor",
       {{"type", "BertProcessing"}},
       "post_processor of type BertProcessing is not supported"},
      {"/post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<x>"}}}}, {{"Sequence", {{"id", "A"}}}}}}},
       "names '<x>', which is not in the vocabulary"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.expected);
    CHECK_MESSAGE(refusal_with(c.path, c.value).find(c.expected) != std::string::npos,
                  refusal_with(c.path, c.value));
  }
  CHECK(refusal(good().dump()) == "");
}

TEST_CASE("hostile: faulty vocabularies, merges and added tokens are refused with the token's name") {
  struct Case {
    const char* path;
    TestJson value;
    const char* expected;
  };
  const Case cases[] = {
      {"/model/vocab/b", 0, "id 0 is given to both 'a' and 'b'"},
      {"/model/vocab/b", -1, "token 'b' has id -1"},
      {"/model/vocab/b", 1000000000, "token 'b' has id 1000000000; ids go from 0 to"},
      {"/model/vocab/b", 18446744073709551615u,
       "token 'b' has id 18446744073709551615, which is no whole number"},
      {"/model/vocab/b", 1.5, "token 'b' has id 1.5, which is no whole number"},
      {"/model/vocab/b", "1", "token 'b' has id \"1\""},
      {"/model/vocab", nullptr, "model.vocab is missing"},
      {"/model/vocab", TestJson::object(), "model.vocab must map tokens to ids"},
      {"/model/vocab", TestJson::array(), "model.vocab must map tokens to ids"},
      {"/model", nullptr, "tokenizer.json.model is missing"},
      {"/model", TestJson::array({1}), "model must be an object"},
      {"/model/unk_token", "<u>", "model.unk_token '<u>' is not in the vocabulary"},
      {"/model/byte_fallback", "yes", "model.byte_fallback must be true or false, is string"},
      {"/model/merges/0", "a c", "model.merges[0] \"a c\": 'c' is not in the vocabulary"},
      {"/model/merges/0", "b a", "'ba' is not in the vocabulary"},
      {"/model/merges/0", "ab", "must be two tokens"},
      {"/model/merges/0", "a b c", "must be two tokens"},
      {"/model/merges/0", 7, "must be two tokens"},
      {"/model/merges", "a b", "model.merges must be a list"},
      {"/added_tokens/0/id", 1, "id 1 is given to both 'b' and '<s>'"},
      {"/added_tokens/0/content", "a", "token 'a' has both id 0 and id 3"},
      {"/added_tokens/0/id", 1000000000, "token '<s>' has id 1000000000"},
      {"/added_tokens/0/id", nullptr, "added_tokens[0].id is missing"},
      {"/added_tokens/0", 5, "added_tokens[0]"},
      {"/added_tokens", 5, "added_tokens must be a list"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.expected);
    CHECK_MESSAGE(refusal_with(c.path, c.value).find(c.expected) != std::string::npos,
                  refusal_with(c.path, c.value));
  }
}

TEST_CASE("hostile: all faults of a file are told at once") {
  TestJson d = good();
  d["normalizer"] = {{"type", "Lowercase"}};
  d["decoder"] = {{"type", "CTC"}};
  d["model"]["dropout"] = 0.5;
  d["model"]["merges"] = {"a x"};
  const std::string text = refusal(d.dump());
  for (const char* part : {"Lowercase", "CTC", "dropout", "'x'"}) CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("hostile: a flood of faulty merges is told in a few lines") {
  TestJson d = good();
  for (int i = 0; i < 5000; ++i) d["model"]["merges"].push_back("x y");
  const std::string text = refusal(d.dump());
  CHECK(text.find("more faults in model.merges") != std::string::npos);
  CHECK(text.size() < 4000);
}

TEST_CASE("hostile: deep nesting is refused") {
  std::string deep = R"({"type":"NFC"})";
  for (int i = 0; i < 24; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
  TestJson d = good();
  d["normalizer"] = TestJson::parse(deep);
  CHECK(refusal(d.dump()).find("nested deeper than") != std::string::npos);
  CHECK(refusal(std::string(1 << 20, '[')).find("nests deeper than 64 levels") != std::string::npos);
  CHECK(refusal(std::string(1 << 20, ' ') + "[").find("is not valid JSON") != std::string::npos);
}

TEST_CASE("hostile: missing folders and files are told apart") {
  const test::ScratchDir dir;
  CHECK_THROWS_WITH_AS(load_tokenizer(dir.path() / "none"), doctest::Contains("is not a folder"), Error);
  CHECK_THROWS_WITH_AS(load_tokenizer(dir.path()), doctest::Contains("no tokenizer.json, no tokenizer.model"),
                       Error);
  dir.write("vocab.json", "{}");
  CHECK_THROWS_WITH_AS(load_tokenizer(dir.path()), doctest::Contains("vocab.json with merges.txt"), Error);
  CHECK(refusal("").find("is not valid JSON") != std::string::npos);
  CHECK(refusal("[]").find("must hold a JSON object") != std::string::npos);
  CHECK(refusal("version https://git-lfs.github.com/spec/v1").find("Git LFS pointer") != std::string::npos);
}

TEST_CASE("hostile: a configuration that contradicts the tokenizer is refused") {
  CHECK_THROWS_WITH_AS(loaded(good(), {{"eos_token", "</s>"}}),
                       doctest::Contains("eos_token '</s>' is not in the vocabulary"), Error);
  CHECK_THROWS_WITH_AS(loaded(good(), {{"add_bos_token", true}}), doctest::Contains("there is no bos_token"),
                       Error);
  CHECK_THROWS_WITH_AS(loaded(good(), {{"added_tokens_decoder", {{"3", {{"content", "<t>"}}}}}}),
                       doctest::Contains("id 3 is given to both '<s>' and '<t>'"), Error);
  CHECK(loaded(good(), {{"added_tokens_decoder", {{"4", {{"content", "<t>"}, {"special", true}}}}}})
            ->vocabulary() == 5);
}

TEST_CASE("hostile: a tokenizer file cut anywhere or with any byte changed never crashes") {
  const std::string file = good().dump();
  for (std::size_t cut = 0; cut < file.size(); ++cut) CHECK(refusal(file.substr(0, cut)) != "");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = file;
    changed[random() % file.size()] = char(random());
    refusal(changed);  // refused or read, with Error(model) as the only exception
  }
}

TEST_CASE("hostile: text that is not UTF-8 is refused with its place") {
  TestJson d = good();
  for (const char c : std::string("\n")) d["model"]["vocab"][std::string(1, c)] = 4;
  const auto t = loaded(d);
  for (const char* bad :
       {"a\n\xff", "a\n\xc3", "a\n\xc0\x80", "a\n\xed\xa0\x80", "a\n\xf4\x90\x80\x80", "a\n\xe2\x96 "}) {
    try {
      t->encode(bad);
      FAIL("must be refused");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::data);
      CHECK(std::string(e.what()).find("at offset 2 (line 2)") != std::string::npos);
    }
  }
}

}  // namespace zt::text
