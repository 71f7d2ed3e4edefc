// Published tokenizers against published ids.
#include "folders.h"
#include "random_text.h"
#include "support/stories260k.h"
#include "text/unicode_forms.h"

namespace zt::text {
namespace {

// BOS and EOS as a test vector asks for them.
Ids framed(const Tokenizer& t, Ids ids, bool bos, bool eos) {
  if (bos) ids.insert(ids.begin(), t.bos().value());
  if (eos) ids.push_back(t.eos().value());
  return ids;
}

std::vector<std::string> parts(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(separator, from)) != std::string::npos; from = at + separator.size())
    out.push_back(text.substr(from, at - from));
  out.push_back(text.substr(from));
  return out;
}

Ids numbers(const std::string& line) {
  Ids ids;
  for (const std::string& word : parts(line, " "))
    if (!word.empty()) ids.push_back(std::stoi(word));
  return ids;
}

using Loader = std::unique_ptr<Tokenizer> (*)(const std::string& name);

struct Family {
  Loader load;
  const char *tokenizer, *vectors;
};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace

TEST_CASE("published: ids equal llama.cpp's vectors for four families, and come back as the same text") {
  for (const auto& [load, name, vectors] :
       {Family{published, "gpt2", "gpt-2"}, Family{published, "llama2", "llama-spm"},
        Family{published_model, "llama2", "llama-spm"}, Family{published, "llama3", "llama-bpe"},
        Family{published, "qwen3", "qwen2"}, Family{published, "qwen3", "deepseek-r1-qwen"}}) {
    CAPTURE(name);
    const std::string base = std::string("vectors/llama.cpp/ggml-vocab-") + vectors + ".gguf";
    const auto inputs = test::test_data(base + ".inp"), outputs = test::test_data(base + ".out");
    const auto t = load(name);
    if (!t || !inputs || !outputs) return;
    auto texts = parts(test::read_file(*inputs), "\n__ggml_vocab_test__\n");
    texts.pop_back();  // the separator ends every text
    const auto lines = parts(test::read_file(*outputs), "\n");
    REQUIRE(texts.size() == 46);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      const Ids ids = t->encode(texts[i]);
      CHECK(ids == numbers(lines[i]));
      CHECK(t->decode(ids) == texts[i]);
    }
  }
}

TEST_CASE("published: ids equal the vectors of gpt-tokenizer, llama-tokenizer-js and transformers") {
  struct Set {
    Loader load;
    const char *tokenizer, *file;
    std::size_t cases;
  };
  for (const auto& [load, name, file, cases] :
       {Set{published, "gpt2", "gpt2_r50k_testplans", 64},
        Set{published, "llama2", "llama2_llama-tokenizer-js", 12},
        Set{published, "llama2", "llama2_hf_integration", 5},
        Set{published_model, "llama2", "llama2_llama-tokenizer-js", 12},
        Set{published_model, "llama2", "llama2_hf_integration", 5}}) {
    CAPTURE(file);
    const auto path = test::test_data(std::string("vectors/") + file + ".json");
    const auto t = load(name);
    if (!t || !path) return;
    const TestJson vectors = json_data(*path);
    REQUIRE(vectors["cases"].size() == cases);
    for (const auto& c : vectors["cases"]) {
      CAPTURE(c.dump());
      const auto text = c["text"].get<std::string>();
      CHECK(framed(*t, t->encode(text), vectors["bos"], false) == c["ids"].get<Ids>());
    }
  }
}

TEST_CASE("published: Llama 3 ids equal llama3-tokenizer-js, with special tokens named as in Llama 3.1") {
  const auto gz = test::test_data("tokenizers/llama3/tokenizer.json.gz"),
             newer = test::test_data("tokenizers/llama3_2/tokenizer_config.json"),
             vectors = test::test_data("vectors/llama3_llama3-tokenizer-js.json");
  if (!gz || !newer || !vectors) return;
  TestJson description = TestJson::parse(unpacked(*gz));
  const TestJson config = json_data(*newer);
  for (auto& token : description["added_tokens"])
    token["content"] = config["added_tokens_decoder"][std::to_string(token["id"].get<int>())]["content"];
  const auto t = loaded(description, config);
  const auto cases = json_data(*vectors)["cases"];
  REQUIRE(cases.size() == 21);
  for (const auto& c : cases) {
    CAPTURE(c.dump());
    CHECK(framed(*t, t->encode_with_specials(c["text"].get<std::string>()), c["bos"], c["eos"]) ==
          c["ids"].get<Ids>());
  }
}

TEST_CASE("published: Llama 3 ids equal Meta's own test") {
  const auto path = test::test_data("vectors/llama3_meta_tests.json");
  const auto t = published("llama3");
  if (!t || !path) return;
  const TestJson vectors = json_data(*path);
  const auto& whole = vectors["encode"][0];
  // Meta's EOS is <|end_of_text|>; the chat model's is <|eot_id|>.
  Ids ids = framed(*t, t->encode(whole["text"].get<std::string>()), true, false);
  ids.push_back(t->id_of("<|end_of_text|>").value());
  CHECK(ids == whole["ids"].get<Ids>());
  const auto& message = vectors["message"][0];
  const std::string header =
      "<|start_header_id|>" + message["role"].get<std::string>() + "<|end_header_id|>\n\n";
  CHECK(t->encode_with_specials(header + message["content"].get<std::string>() + "<|eot_id|>") ==
        message["ids"].get<Ids>());
}

TEST_CASE("published: token counts of tinyshakespeare equal nanoGPT's and llm.c's") {
  const auto path = test::test_data("text/tinyshakespeare.txt");
  const auto gpt2 = published("gpt2"), llama3 = published("llama3");
  if (!path || !gpt2 || !llama3) return;
  const std::string text = test::read_file(*path);
  const std::size_t cut = std::size_t(0.9 * double(text.size()));
  CHECK(gpt2->encode(text.substr(0, cut)).size() == 301966);
  CHECK(gpt2->encode(text.substr(cut)).size() == 36059);
  // llm.c parts the text at blank lines, puts the end-of-text token before each part and leaves the blank
  // line at the part's end; the first 32,768 tokens are its validation set.
  struct Count {
    const Tokenizer* tokenizer;
    std::size_t total;
  };
  for (const auto& [tokenizer, total] :
       {Count{gpt2.get(), 305260 + 32768}, Count{llama3.get(), 276224 + 32768}}) {
    std::size_t count = 0;
    const auto sections = parts(text, "\n\n");
    for (std::size_t i = 0; i < sections.size(); ++i)
      count += 1 + tokenizer->encode(sections[i] + (i + 1 < sections.size() ? "\n\n" : "")).size();
    CHECK(count == total);
  }
}

TEST_CASE("published: GPT-2's older two files give the same ids as its tokenizer.json") {
  const auto folder = test::test_data("tokenizers/gpt2"), text = test::test_data("text/the-verdict.txt");
  if (!folder || !text) return;
  const test::ScratchDir dir;
  for (const char* name : {"vocab.json", "merges.txt"}) dir.write(name, test::read_file(*folder / name));
  const auto older = load_tokenizer(dir.path()), newer = load_tokenizer(*folder);
  const Ids ids = older->encode(test::read_file(*text));
  CHECK(ids.size() == 5145);
  CHECK(ids == newer->encode(test::read_file(*text)));
  CHECK(older->eos() == 50256);
  CHECK(newer->eos() == 50256);
  CHECK(older->vocabulary() == 50257);
}

TEST_CASE("published: stories260K, converted from llama2.c's form, gives llama2.c's ids") {
  const auto bin = test::test_data("models/stories260K/stories260K.bin"),
             tok = test::test_data("models/stories260K/tok512.bin"),
             sample = test::test_data("text/tinystories_v2_sample.txt"),
             numbers_file = test::test_data("numbers/stories260k_reference.json");
  if (!bin || !tok || !sample || !numbers_file) return;
  const test::ScratchDir dir;
  test::write_stories260k(*bin, *tok, dir.path());
  const auto t = load_tokenizer(dir.path());
  CHECK(t->vocabulary() == 512);
  CHECK(t->adds_bos());
  CHECK(framed(*t, t->encode("Once upon a time"), true, false) == Ids{1, 403, 407, 261, 378});
  const auto stories = json_data(*numbers_file)["peer_run"]["tinystories_v2_sample"]["stories"];
  const auto texts = parts(test::read_file(*sample), "<|endoftext|>");
  REQUIRE(stories.size() == 5);
  for (std::size_t i = 0; i < stories.size(); ++i) {
    std::string text = texts[i];
    text.erase(0, text.find_first_not_of(" \n"));
    text.erase(text.find_last_not_of(" \n") + 1);
    CHECK(framed(*t, t->encode(text), true, false) == stories[i]["ids"].get<Ids>());
    CHECK(t->decode(t->encode(text)) == text);
  }
}

TEST_CASE("published: TinyStories-656K gives the ids of its reference run") {
  const auto folder = test::test_data("models/tinystories-656K"),
             numbers_file = test::test_data("numbers/tinystories656k_reference.json");
  if (!folder || !numbers_file) return;
  const auto t = load_tokenizer(*folder);
  CHECK(t->bos() == 1);
  CHECK(t->eos() == 2);
  CHECK(t->adds_bos());
  CHECK_FALSE(t->adds_eos());
  CHECK(t->vocabulary() == 2048);
  const TestJson reference = json_data(*numbers_file);
  REQUIRE(reference["peer_run"]["prompts"].size() > 0);
  for (const auto& prompt : reference["peer_run"]["prompts"])
    CHECK(framed(*t, t->encode(prompt["text"].get<std::string>()), true, false) == prompt["ids"].get<Ids>());
}

TEST_CASE("published: Mistral's conversations, as text with control tokens, have their published ids") {
  struct Sample {
    Loader load;
    const char *tokenizer, *version, *folder;
  };
  for (const auto& [load, name, version, sample] :
       {Sample{published, "mistral_v1", "v1", "no_tools"},
        Sample{published_model, "mistral_v1", "v1", "no_tools"},
        Sample{published_model, "mistral_v3", "v3", "no_tools"},
        Sample{published_model, "mistral_v3", "v3", "get_weather_full"},
        Sample{published_model, "mistral_v3", "v3", "get_weather_no_history"},
        Sample{published_model, "mistral_v3", "v3", "get_weather_no_system_prompt"},
        Sample{published_model, "mistral_v3", "v3", "parallel_calls"},
        Sample{published_model, "mistral_v3", "v3", "several_calls"}}) {
    CAPTURE(name);
    CAPTURE(sample);
    const auto folder = test::test_data(std::string("vectors/mistral-common/") + sample);
    const auto t = load(name);
    if (!t || !folder) return;
    const Ids ids = json_data(*folder / (std::string("tokens_") + version + ".json"))["tokens"].get<Ids>();
    std::string text = test::read_file(*folder / (std::string("text_") + version + ".txt"));
    std::string spelled;
    for (const std::int32_t id : ids) spelled += t->token(id);
    CHECK(spelled == text);
    // In the spelling each stretch of text begins with the tokenizer's own space; raw text does not have it.
    for (std::int32_t id = 0; id < t->vocabulary(); ++id)
      if (t->is_special(id)) text = replaced(text, t->token(id) + "\u2581", t->token(id));
    text = replaced(replaced(text, "\u2581", " "), "<0x0A>", "\n");
    CHECK(t->encode_with_specials(text) == ids);
  }
}

TEST_CASE("published: Mistral's third version has its instruction marks as control tokens") {
  const auto t = published_model("mistral_v3");
  if (!t) return;
  CHECK(t->vocabulary() == 32768);
  CHECK(t->bos() == 1);
  CHECK(t->eos() == 2);
  CHECK_FALSE(t->pad().has_value());
  CHECK(t->adds_bos());
  for (const char* mark : {"[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                           "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<s>", "</s>", "<unk>"}) {
    CAPTURE(mark);
    const std::int32_t id = t->id_of(mark).value();
    CHECK(t->is_special(id));
    CHECK(t->encode_with_specials(mark) == Ids{id});
    CHECK(t->decode(Ids{id}) == mark);
    for (const std::int32_t got : t->encode(std::string("a") + mark + " " + mark))
      CHECK_FALSE(t->is_special(got));
  }
}

TEST_CASE("published: tokenizer.json and tokenizer.model of one tokenizer agree on any text") {
  for (const char* name : {"llama2", "mistral_v1"}) {
    CAPTURE(name);
    const auto json = published(name), model = published_model(name);
    if (!json || !model) return;
    CHECK(model->vocabulary() == json->vocabulary());
    CHECK(model->bos() == json->bos());
    CHECK(model->eos() == json->eos());
    CHECK(model->pad() == json->pad());
    CHECK(model->adds_bos() == json->adds_bos());
    CHECK(model->adds_eos() == json->adds_eos());
    for (std::int32_t id = 0; id < json->vocabulary(); ++id) {
      REQUIRE(model->token(id) == json->token(id));
      REQUIRE(model->is_special(id) == json->is_special(id));
    }
    for (const char* file : {"text/tinyshakespeare.txt", "text/wiki_demo.txt"})
      if (const auto path = test::test_data(file))
        CHECK(model->encode(test::read_file(*path)) == json->encode(test::read_file(*path)));
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(&random, 60);
      CAPTURE(i);
      CAPTURE(text);
      const Ids ids = json->encode(text);
      REQUIRE(model->encode(text) == ids);
      REQUIRE(model->decode(ids) == json->decode(ids));
      REQUIRE(model->encode_continuation(text) == json->encode_continuation(text));
    }
  }
}

TEST_CASE("published: random Unicode comes back unchanged from every tokenizer, or as it was normalized") {
  for (const auto& [load, name] : {std::pair<Loader, const char*>{published, "gpt2"},
                                   {published, "llama2"},
                                   {published, "llama3"},
                                   {published, "mistral_v1"},
                                   {published, "qwen3"},
                                   {published_model, "llama2"},
                                   {published_model, "mistral_v1"},
                                   {published_model, "mistral_v3"}}) {
    const auto t = load(name);
    if (!t) return;
    CAPTURE(name);
    std::mt19937 random(2);
    for (int i = 0; i < 3000; ++i) {
      // SentencePiece writes spaces as this character, so it comes back as a space.
      const std::string text = without(random_text(&random, 60), "\u2581");
      const std::string next = without(random_text(&random, 10), "\u2581");
      CAPTURE(i);
      CAPTURE(text);
      const bool composes = std::string(name) == "qwen3";
      const auto expected = [&](const std::string& x) {
        return composes ? to_unicode_form(x, UnicodeForm::nfc) : x;
      };
      Ids ids = t->encode(text);
      REQUIRE(t->decode(ids) == expected(text));
      for (const std::int32_t id : ids) REQUIRE_FALSE(t->is_special(id));
      for (const std::int32_t id : t->encode_continuation(next)) ids.push_back(id);
      if (!text.empty()) REQUIRE(t->decode(ids) == expected(text) + expected(next));
    }
  }
}

TEST_CASE("published: every lossless tokenizer gives odd Unicode back unchanged") {
  const std::vector<std::string> odd = {"",
                                        " ",
                                        "  two  spaces ",
                                        "\t\r\n\v",
                                        std::string("nul\0in", 6),
                                        "\u00a0\u2003\u3000\u180e",
                                        "e\u0301 \u00e9",
                                        "\U0001F469\u200D\U0001F4BB",
                                        "\uFEFFbom",
                                        "\U0010FFFF\uE000\uFFFD",
                                        "\u0627\u0644\u0639",
                                        "\u1100\u1161\uac00",
                                        "<s></s><|endoftext|><0x0A>"};
  for (const char* name : {"gpt2", "llama2", "llama3", "mistral_v1"}) {
    const auto t = published(name);
    if (!t) return;
    for (const std::string& text : odd) {
      CAPTURE(name);
      CAPTURE(text);
      CHECK(t->decode(t->encode(text)) == text);
    }
  }
}

TEST_CASE("published: Llama 3's tokenizer.model is another format, and is refused with the way out") {
  const auto path = test::test_data("tokenizers/llama3/tokenizer.model");
  if (!path) return;
  const test::ScratchDir dir;
  dir.write("tokenizer.model", test::read_file(*path));
  CHECK_THROWS_WITH_AS(load_tokenizer(dir.path()), doctest::Contains("is in tiktoken's form"), Error);
  CHECK_THROWS_WITH_AS(load_tokenizer(dir.path()), doctest::Contains("tokenizer.json: take that one"), Error);
}

TEST_CASE("published: a text in two pieces reads back as one text") {
  for (const char* name : {"gpt2", "llama2", "llama3", "mistral_v1"}) {
    const auto t = published(name);
    if (!t) return;
    CAPTURE(name);
    for (const auto& [prompt, answer] :
         {std::pair{"1 + 1 =", " 2"}, {"1 + 1 = ", "2"}, {"caf", "\u00e9s\n"}}) {
      Ids ids = t->encode(prompt);
      for (const std::int32_t id : t->encode_continuation(answer)) ids.push_back(id);
      CHECK(t->decode(ids) == std::string(prompt) + answer);
    }
  }
  const auto llama2 = published("llama2");
  if (!llama2) return;
  CHECK(llama2->token(llama2->encode("Hello").at(0)) == "\u2581Hello");
  CHECK(llama2->token(llama2->encode_continuation("Hello").at(0)) == "Hello");
}

TEST_CASE("published: Qwen composes characters before it splits") {
  const auto t = published("qwen3");
  if (!t) return;
  CHECK(t->encode("caf\u0065\u0301") == t->encode("caf\u00e9"));
  CHECK(t->decode(t->encode("e\u0301")) == "\u00e9");
  CHECK_FALSE(t->bos().has_value());  // its configuration says null
}

TEST_CASE("published: content cannot become a control token, raw text can") {
  struct Case {
    const char *tokenizer, *control;
  };
  for (const auto& [name, control] : {Case{"gpt2", "<|endoftext|>"}, Case{"llama2", "</s>"},
                                      Case{"llama3", "<|eot_id|>"}, Case{"qwen3", "<|im_end|>"}}) {
    const auto t = published(name);
    if (!t) return;
    CAPTURE(name);
    const std::int32_t id = t->id_of(control).value();
    CHECK(t->is_special(id));
    for (const std::int32_t got : t->encode(std::string("a") + control + "b"))
      CHECK_FALSE(t->is_special(got));
    CHECK(t->encode_with_specials(control) == Ids{id});
    CHECK(t->decode(Ids{id}) == control);
  }
}

}  // namespace zt::text
