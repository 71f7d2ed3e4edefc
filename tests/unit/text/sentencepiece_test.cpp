// SentencePiece models, case by case, with small models made by hand.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <bit>
#include <random>

#include "base/text.h"
#include "folders.h"
#include "random_text.h"
#include "text/sentencepiece_model.h"
#include "text/wire_format.h"

namespace zt::text {
namespace {

using Kind = SentencePieceFile::Kind;
enum : std::uint64_t { kUnigram = 1, kBpe = 2, kCharacters = 4 };

struct TestPiece {
  std::string text;
  Kind kind = Kind::normal;
};

std::string piece(const TestPiece& p, float score) {
  std::string message = wire_field(1, p.text) + "\x15";  // field 2, four bytes
  const auto bits = std::bit_cast<std::uint32_t>(score);
  for (int shift = 0; shift < 32; shift += 8) message += char(bits >> shift & 0xFF);
  return wire_field(1, message + wire_field(3, std::uint64_t(p.kind)));
}

// What trainers write for models of Llama's kind: text is left as it is, but for the space at the front.
std::string normalizer(bool prefix = true) {
  return wire_field(3, wire_field(1, "identity") + wire_field(3, prefix) + wire_field(4, std::uint64_t{0}));
}

std::string trainer(std::uint64_t type, bool byte_fallback) {
  return wire_field(2, wire_field(3, type) + wire_field(35, byte_fallback));
}

// Earlier pieces merge first.
std::string pieces_of(const std::vector<TestPiece>& list) {
  std::string out;
  float score = 0;
  for (const TestPiece& p : list) out += piece(p, p.kind == Kind::normal ? --score : 0);
  return out;
}

// <unk> 0, <s> 1, </s> 2, then these.
std::vector<TestPiece> with_roles(std::vector<TestPiece> list) {
  list.insert(list.begin(), {{"<unk>", Kind::unknown}, {"<s>", Kind::control}, {"</s>", Kind::control}});
  return list;
}

std::string bpe(const std::vector<TestPiece>& list) {
  return pieces_of(with_roles(list)) + trainer(kBpe, false) + normalizer();
}

std::unique_ptr<Tokenizer> load_model(const std::string& model, const TestJson& config = TestJson::object()) {
  const test::ScratchDir dir;
  dir.write("tokenizer.model", model);
  if (!config.empty()) dir.write("tokenizer_config.json", config.dump());
  return load_tokenizer(dir.path());
}

std::string refusal_of(const std::string& model, const TestJson& config = TestJson::object()) {
  try {
    load_model(model, config);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    return e.what();
  }
  return "";
}

// ▁ 3, a 4, b 5, ▁a 6, ab 7
std::vector<TestPiece> small() { return {{"\u2581"}, {"a"}, {"b"}, {"\u2581a"}, {"ab"}}; }

// All letters of control tokens too, so that they can be spelled.
std::vector<TestPiece> letters() {
  std::vector<TestPiece> list = {{"\u2581"}};
  for (const char c : std::string("<>/s.abI")) list.push_back({std::string(1, c)});
  return list;
}

}  // namespace

TEST_CASE("model: ids, tokens and roles come from the file") {
  const auto t = load_model(bpe(small()));
  CHECK(t->vocabulary() == 8);
  CHECK(t->bos() == 1);
  CHECK(t->eos() == 2);
  CHECK_FALSE(t->pad().has_value());
  CHECK(t->adds_bos());
  CHECK_FALSE(t->adds_eos());
  CHECK(t->id_of("\u2581a") == 6);
  CHECK_FALSE(t->id_of("x").has_value());
  CHECK(t->token(7) == "ab");
  CHECK(t->token(8) == "");
  CHECK(t->is_special(0));
  CHECK(t->is_special(2));
  CHECK_FALSE(t->is_special(3));
  CHECK(t->encode("ab a") == Ids{6, 5, 6});  // ▁a merges before ab
  CHECK(t->encode("bab") == Ids{3, 5, 7});
  CHECK(t->encode("") == Ids{});
  CHECK(t->decode(Ids{6, 5, 6}) == "ab a");
  CHECK(t->decode(Ids{1, 6, 2}) == "<s> a</s>");
  CHECK_THROWS_WITH_AS(t->decode(Ids{8}),
                       doctest::Contains("id 8 has no token; the vocabulary has ids 0 to 7"), Error);
  CHECK_THROWS_WITH_AS(t->encode("a\xff"), doctest::Contains("not UTF-8"), Error);
}

TEST_CASE("model: the files around it decide roles and flags, as for tokenizer.json") {
  const std::string model = bpe(small());
  const auto t = load_model(
      model,
      {{"tokenizer_class", "LlamaTokenizer"},
       {"bos_token", "</s>"},
       {"eos_token", {{"content", "ab"}}},
       {"pad_token", "<pad>"},
       {"add_bos_token", false},
       {"add_eos_token", true},
       {"added_tokens_decoder",
        {{"8", {{"content", "<pad>"}, {"special", true}}}, {"9", {{"content", "bb"}, {"special", false}}}}}});
  CHECK(t->bos() == 2);
  CHECK(t->eos() == 7);
  CHECK(t->pad() == 8);
  CHECK_FALSE(t->adds_bos());
  CHECK(t->adds_eos());
  CHECK(t->vocabulary() == 10);
  CHECK(t->encode_with_specials("a<pad>bb") == Ids{6, 8, 9});
  // The end token is one of the model's ordinary pieces; text cannot become it any more.
  CHECK(t->is_special(7));
  CHECK(t->encode("bab") == Ids{3, 5, 4, 5});
  CHECK(t->encode_with_specials("ab") == Ids{7});
  const test::ScratchDir dir;
  dir.write("tokenizer.model", model);
  dir.write("config.json", R"({"eos_token_id": [1, 2], "pad_token_id": 0, "bos_token_id": 99})");
  const auto by_id = load_tokenizer(dir.path());
  CHECK(by_id->eos() == 1);
  CHECK(by_id->pad() == 0);
  CHECK(by_id->bos() == 1);
  CHECK(refusal_of(model, {{"eos_token", "<end>"}}).find("eos_token '<end>' is not in the vocabulary") !=
        std::string::npos);
  CHECK(refusal_of(model, {{"added_tokens_decoder", {{"3", {{"content", "<t>"}}}}}})
            .find("id 3 is given to both") != std::string::npos);
}

TEST_CASE("model: content never becomes a control token, raw text does, with its flags") {
  const std::string model = bpe(letters());
  const auto id = [&](const char* token) { return load_model(model)->id_of(token).value(); };
  const Ids spelled = {id("<"), id("/"), id("s"), id(">")};
  CHECK(load_model(model)->encode_continuation("</s>") == spelled);
  CHECK(load_model(model)->encode_continuation("<unk>").at(0) == id("<"));
  const auto with = [&](const TestJson& flags) {
    TestJson token = {{"content", "</s>"}, {"special", true}};
    token.update(flags);
    return load_model(model, {{"add_prefix_space", false}, {"added_tokens_decoder", {{"2", token}}}});
  };
  const auto plain = with(TestJson::object());
  CHECK(plain->encode("</s>") == spelled);
  CHECK(plain->encode_with_specials("I.</s>") == Ids{id("I"), id("."), 2});
  CHECK(plain->encode_with_specials("a </s>b") == Ids{id("a"), id("\u2581"), 2, id("b")});
  CHECK(with({{"lstrip", true}})->encode_with_specials("a </s>b") == Ids{id("a"), 2, id("b")});
  CHECK(with({{"single_word", true}})->encode_with_specials("a</s>") == plain->encode("a</s>"));
}

TEST_CASE("model: a character without a piece becomes its bytes only if the file says so") {
  std::vector<TestPiece> list = with_roles({{"\u2581"}, {"a"}});
  for (int byte = 0; byte < 256; ++byte) list.push_back({fmt::format("<0x{:02X}>", byte), Kind::byte});
  const auto bytes = load_model(pieces_of(list) + trainer(kBpe, true) + normalizer(false));
  CHECK(bytes->encode("\n") == Ids{5 + 0x0A});
  CHECK(bytes->encode("a\u00e9") == Ids{4, 5 + 0xC3, 5 + 0xA9});
  CHECK(bytes->decode(bytes->encode("a\u00e9 \U0001F600\n")) == "a\u00e9 \U0001F600\n");
  // The name of a byte is ordinary text.
  CHECK(bytes->encode("<0x0A>").size() == 6);
  const auto unknown =
      load_model(pieces_of(with_roles({{"\u2581"}, {"a"}})) + trainer(kBpe, false) + normalizer(false));
  CHECK(unknown->encode("\n") == Ids{0});
  CHECK(unknown->encode("a\n\u00e9a") == Ids{4, 0, 4});  // neighbours are one unknown token
}

TEST_CASE("model: the space at the front is put where the file and its neighbours say") {
  const std::string model = bpe(small()), bare = pieces_of(with_roles(small())) + trainer(kBpe, false);
  CHECK(load_model(model)->encode("a") == Ids{6});
  CHECK(load_model(model)->encode_continuation("a") == Ids{4});
  CHECK(load_model(model)->encode_continuation(" a") == Ids{6});
  CHECK(load_model(model)->encode(" a") == Ids{3, 6});
  CHECK(load_model(model)->decode(Ids{3, 6}) == " a");
  CHECK(load_model(model, {{"add_prefix_space", false}})->encode("a") == Ids{4});
  CHECK(load_model(bare + normalizer(false))->encode("a") == Ids{4});
  CHECK(load_model(bare + normalizer(false))->decode(Ids{6}) == " a");
  CHECK(load_model(model)->encode_with_specials("a</s>a") == Ids{6, 2, 6});
  CHECK(load_model(model, {{"legacy", true}})->encode_with_specials("a</s>a") == Ids{6, 2, 6});
  CHECK(load_model(model, {{"legacy", false}})->encode_with_specials("a</s>a") == Ids{6, 2, 4});
  CHECK(load_model(model, {{"legacy", false}})->encode_with_specials("</s>a") == Ids{2, 4});
}

TEST_CASE("model: user-defined pieces are found in content, unless they are control tokens by role") {
  std::vector<TestPiece> list = letters();
  list.push_back({"<a>", Kind::user_defined});
  const int defined = 3 + int(list.size()) - 1;
  const auto t = load_model(bpe(list));
  CHECK(t->encode_continuation("s<a>s") == Ids{t->id_of("s").value(), defined, t->id_of("s").value()});
  CHECK_FALSE(t->is_special(defined));
  const auto control = load_model(bpe(list), {{"eos_token", "<a>"}});
  for (const std::int32_t id : control->encode("s<a>s")) CHECK(id != defined);
  CHECK(control->encode_with_specials("<a>") == Ids{defined});
}

TEST_CASE("model: a unigram model takes the likeliest pieces") {
  // ▁ab costs 1, every other way to spell it more.
  const auto t = load_model(pieces_of(with_roles({{"\u2581ab"}, {"\u2581"}, {"a"}, {"b"}, {"ba"}})) +
                            trainer(kUnigram, false) + normalizer());
  CHECK(t->encode("ab") == Ids{3});
  CHECK(t->encode("aba") == Ids{3, 5});
  CHECK(t->encode("ba") == Ids{4, 7});
  CHECK(t->decode(t->encode("ab aba")) == "ab aba");
}

TEST_CASE("model: what is cut into parts has the ids that the library gives to the whole") {
  std::mt19937 random(3);
  const std::vector<std::string> alphabet = {"a", "b", "c", "\u2581", "\u00e9", "\u4e00"};
  for (int round = 0; round < 60; ++round) {
    std::vector<TestPiece> list;
    const auto has = [&](const std::string& text) {
      return std::any_of(list.begin(), list.end(), [&](const TestPiece& p) { return p.text == text; });
    };
    for (const std::string& letter : alphabet)
      if (random() % 8 != 0) list.push_back({letter});
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (std::size_t n = 2 + random() % 3; n > 0; --n) text += alphabet[random() % alphabet.size()];
      if (!has(text)) list.push_back({text, random() % 10 == 0 ? Kind::user_defined : Kind::normal});
    }
    std::shuffle(list.begin(), list.end(), random);
    const bool bytes = round % 2 == 0;
    if (bytes)
      for (int byte = 0; byte < 256; ++byte) list.push_back({fmt::format("<0x{:02X}>", byte), Kind::byte});
    const std::string model = pieces_of(with_roles(list)) + trainer(kBpe, bytes) + normalizer(round % 3 != 0);
    const auto t = load_model(model);
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.LoadFromSerializedProto(model).ok());
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (std::size_t n = random() % 30; n > 0; --n)
        text += random() % 6 == 0 ? " " : random() % 12 == 0 ? "x" : alphabet[random() % alphabet.size()];
      CAPTURE(text);
      REQUIRE(t->encode(text) == Ids(library.EncodeAsIds(text)));
    }
  }
}

TEST_CASE("model: published models cut into parts have the ids that the library gives to the whole") {
  for (const char* file : {"tokenizers/llama2/tokenizer.model", "tokenizers/mistral_v1/tokenizer.model.v1",
                           "tokenizers/mistral_v3/tokenizer.model.v3"}) {
    const auto path = test::test_data(file);
    if (!path) return;
    const std::string model = test::read_file(*path);
    const auto t = load_model(model);
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.LoadFromSerializedProto(model).ok());
    std::mt19937 random(4);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = random_text(&random, 80);
      CAPTURE(text);
      const Ids ids(library.EncodeAsIds(text));
      REQUIRE(t->encode(text) == ids);
      REQUIRE(t->decode(ids) == library.DecodeIds(ids));
    }
  }
}

TEST_CASE("model: the folder's files are exported as they are, and tokenizer.json comes first") {
  const test::ScratchDir dir;
  const std::string model = bpe(small());
  dir.write("tokenizer.model.v1", bpe(letters()));
  dir.write("tokenizer.model.v3", model);
  const auto t = load_tokenizer(dir.path());
  CHECK(t->vocabulary() == 8);
  REQUIRE(t->files().size() == 2);
  CHECK(t->files()[0] == std::pair<std::string, std::string>("tokenizer.model.v3", model));
  CHECK(t->fingerprint() == load_tokenizer(dir.path())->fingerprint());
  dir.write("tokenizer.model", bpe(letters()));
  CHECK(load_tokenizer(dir.path())->vocabulary() == 12);
  CHECK(load_tokenizer(dir.path())->fingerprint() != t->fingerprint());
  dir.write("tokenizer.json", with_model({{"a", 0}}, TestJson::array()).dump());
  CHECK(load_tokenizer(dir.path())->vocabulary() == 1);
}

TEST_CASE("model: what changes ids and is not implemented is refused by name") {
  struct Case {
    std::string appended;  // later fields override earlier ones
    const char* expected;
  };
  const Case cases[] = {
      {trainer(kCharacters, false), "trainer_spec.model_type is neither BPE nor UNIGRAM"},
      {wire_field(2, wire_field(24, 1)), "trainer_spec.treat_whitespace_as_suffix is not supported"},
      {wire_field(3, wire_field(1, "nmt_nfkc") + wire_field(2, "table")),
       "normalizer_spec 'nmt_nfkc' with a precompiled_charsmap is not supported"},
      {wire_field(3, wire_field(4, 1)), "normalizer_spec.remove_extra_whitespaces is not supported"},
      {wire_field(3, wire_field(5, std::uint64_t{0})),
       "normalizer_spec.escape_whitespaces being false is not supported"},
      {wire_field(5, wire_field(1, "nfkc")), "denormalizer_spec is not supported"},
      {piece({"!", Kind::control}, 0), "piece 8 '!' is a control token of one character"},
      {piece({"", Kind::normal}, 0), "piece 8 is empty"},
      {piece({"\xff", Kind::normal}, 0), "piece 8 is not UTF-8"},
      {piece({std::string("a\0b", 3), Kind::user_defined}, 0), "piece 8 has a zero byte"},
      {piece({"c", static_cast<Kind>(9)}, 0), "piece 8 is of the unknown kind 9"},
      {piece({"a", Kind::normal}, 0), "token 'a' has both id 4 and id 8"},
      {piece({"<unk2>", Kind::unknown}, 0), "the SentencePiece library refuses the model"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.expected));
    const std::string text = refusal_of(bpe(small()) + c.appended);
    CHECK_MESSAGE(text.find(c.expected) != std::string::npos, text);
  }
  std::string all = bpe(small());
  for (const Case& c : cases) all += c.appended;
  const std::string text = refusal_of(all);
  for (const char* part : {"treat_whitespace_as_suffix", "nmt_nfkc", "zero byte"})
    CHECK(text.find(part) != std::string::npos);
  const std::string other = refusal_of(bpe(small()), {{"tokenizer_class", "T5Tokenizer"}});
  CHECK(other.find("tokenizer.model belongs to a T5Tokenizer, which is not supported") != std::string::npos);
}

TEST_CASE("model: files that are no SentencePiece model are refused") {
  CHECK(refusal_of("").find("it has no pieces") != std::string::npos);
  CHECK(refusal_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
            .find("no SentencePiece model") != std::string::npos);
  const std::string tiktoken = refusal_of("IQ== 0\nIg== 1\n");
  CHECK(tiktoken.find("tiktoken's form") != std::string::npos);
  CHECK(tiktoken.find("tokenizer.json") != std::string::npos);
  std::string flood = bpe(small());
  for (int i = 0; i < 5000; ++i) flood += piece({"", Kind::normal}, 0);
  CHECK(refusal_of(flood).find("and 4992 more faulty pieces") != std::string::npos);
  CHECK(refusal_of(flood).size() < 2000);
}

TEST_CASE("model: a file cut anywhere or with any byte changed never crashes") {
  std::vector<TestPiece> list = small();
  list.push_back({"a b", Kind::user_defined});
  for (const std::uint64_t type : {kBpe, kUnigram}) {
    const std::string file = pieces_of(with_roles(list)) + trainer(type, false) + normalizer();
    const auto use = [](const std::string& changed) {
      try {
        const auto t = load_model(changed);
        t->decode(t->encode("ab a b \u00e9</s>"));
      } catch (const Error&) {
        return;  // refused or read: nothing else may happen
      }
    };
    for (std::size_t cut = 0; cut < file.size(); ++cut) use(file.substr(0, cut));
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
      std::string changed = file;
      changed[random() % file.size()] = char(random());
      use(changed);
    }
  }
}

TEST_CASE("model: a text that cannot be taken in parts is refused when it would need too much memory") {
  const auto t =
      load_model(pieces_of(with_roles({{"a"}, {"aa"}})) + trainer(kBpe, false) + normalizer(false));
  CHECK_THROWS_WITH_AS(t->encode(std::string((16 << 20) + 1, 'a')),
                       doctest::Contains("the limit is 16.00 MiB"), Error);
}

}  // namespace zt::text
