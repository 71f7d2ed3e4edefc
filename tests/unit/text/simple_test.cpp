// The tokenizers that need no files: bytes and characters.
#include "folders.h"

namespace zt::text {
namespace {

std::unique_ptr<Tokenizer> through_a_folder(const Tokenizer& t) {
  const test::ScratchDir dir;
  for (const auto& [name, bytes] : t.files()) dir.write(name, bytes);
  return load_tokenizer(dir.path());
}

}  // namespace

TEST_CASE("byte: ids are bytes, then the control tokens") {
  const auto t = byte_tokenizer();
  CHECK(t->vocabulary() == 264);
  CHECK(t->bos() == 256);
  CHECK(t->eos() == 257);
  CHECK(t->pad() == 258);
  CHECK(t->id_of("<|im_start|>") == 259);
  CHECK(t->id_of("<|im_end|>") == 260);
  CHECK(t->encode("</s>") == Ids{60, 47, 115, 62});
  CHECK(t->encode("<eos>") == Ids{60, 101, 111, 115, 62});
  CHECK(t->encode_with_specials("a<eos><|im_end|><") == Ids{97, 257, 260, 60});
  CHECK(t->decode(Ids{97, 257, 98}) == "a<eos>b");
  CHECK_THROWS_WITH_AS(t->decode(Ids{264}), doctest::Contains("id 264 has no token"), Error);
  CHECK_THROWS_AS(t->decode(Ids{-1}), Error);
}

TEST_CASE("byte and char: a continuation is encoded as any text") {
  for (const auto& t : {byte_tokenizer(), char_tokenizer(" ab")})
    for (const char* text : {"", "a", " ab", "b a"}) CHECK(t->encode_continuation(text) == t->encode(text));
}

TEST_CASE("byte: any bytes come back, UTF-8 or not") {
  std::string all;
  for (int b = 0; b < 256; ++b) all += char(b);
  const auto t = byte_tokenizer();
  const Ids ids = t->encode(all);
  for (int b = 0; b < 256; ++b) CHECK(ids[std::size_t(b)] == b);
  CHECK(t->decode(ids) == all);
}

TEST_CASE("byte: its exported folder reads back as the same tokenizer") {
  const auto t = byte_tokenizer(), back = through_a_folder(*t);
  for (const char* text : {"", "plain", "caf\u00e9 \u6f22\u5b57 \U0001F600\n\t", "<bos>a<|im_start|><pad>"}) {
    CHECK(back->encode(text) == t->encode(text));
    CHECK(back->encode_with_specials(text) == t->encode_with_specials(text));
    CHECK(back->decode(t->encode_with_specials(text)) == text);
  }
  CHECK(back->vocabulary() == t->vocabulary());
  CHECK(back->bos() == t->bos());
  CHECK(back->eos() == t->eos());
  CHECK(back->pad() == t->pad());
  for (std::int32_t id = 0; id < t->vocabulary(); ++id) {
    CHECK(back->token(id) == t->token(id));
    CHECK(back->is_special(id) == t->is_special(id));
  }
}

TEST_CASE("char: tinyshakespeare has 65 characters in nanoGPT's order") {
  const auto path = test::test_data("text/tinyshakespeare.txt");
  if (!path) return;
  const std::string text = test::read_file(*path);
  const auto t = char_tokenizer(text);
  CHECK(t->vocabulary() == 65);
  // Source: nanoGPT, data/shakespeare_char/prepare.py prints these in this order.
  CHECK(t->decode(t->encode("\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) ==
        "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  CHECK(t->encode("\n !$&',-.3:;?A") == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  CHECK(t->encode(text).size() == 1115394);
  CHECK(t->encode("z") == Ids{64});
}

TEST_CASE("char: ids are ranks of code points, and the exported folder gives the same") {
  const auto t = char_tokenizer("b\u00e9a\U0001F600a\u6f22 <|x|>");
  CHECK(t->encode(" <>abx|\u00e9\u6f22\U0001F600") == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK_FALSE(t->bos().has_value());
  CHECK_FALSE(t->eos().has_value());
  const auto back = through_a_folder(*t);
  for (const char* text : {"", "ab a", "\U0001F600\u6f22\u00e9<|x|>"}) {
    CHECK(back->encode(text) == t->encode(text));
    CHECK(back->decode(t->encode(text)) == text);
  }
  CHECK(back->vocabulary() == 10);
  CHECK_THROWS_WITH_AS(back->encode("az"), doctest::Contains("no token for 'z' (U+007A)"), Error);
}

TEST_CASE("char: an unknown character is named with its place") {
  const auto t = char_tokenizer("ab\u00e9\n");
  CHECK_THROWS_WITH_AS(t->encode("a\u00e9\nbz"),
                       doctest::Contains("no token for 'z' (U+007A), character 4 of the text (line 2)"),
                       Error);
  CHECK_THROWS_WITH_AS(t->encode("a\xff"), doctest::Contains("not UTF-8"), Error);
  CHECK_THROWS_WITH_AS(char_tokenizer(""), doctest::Contains("empty text"), Error);
}

TEST_CASE("fingerprint: equal for equal tokenizers, different for different ones") {
  CHECK(byte_tokenizer()->fingerprint() == byte_tokenizer()->fingerprint());
  CHECK(char_tokenizer("ab")->fingerprint() == char_tokenizer("bab")->fingerprint());
  CHECK(char_tokenizer("ab")->fingerprint() != char_tokenizer("ac")->fingerprint());
  CHECK(char_tokenizer("ab")->fingerprint() != byte_tokenizer()->fingerprint());
}

}  // namespace zt::text
