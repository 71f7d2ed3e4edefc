// Which template a model's own Jinja is, and the forms as Jinja.
#include <chrono>

#include "conversations.h"
#include "text/jinja.h"

namespace zt::text {
namespace {

Jinja::Variables variables(const Conversation& c, const Tokenizer& t, bool open) {
  Jinja::Variables messages = Jinja::Variables::array();
  const char* names[] = {"system", "user", "assistant", "tool"};
  for (const Message& m : c.messages)
    messages.push_back({{"role", names[int(m.role)]}, {"content", m.content}});
  return {{"messages", messages},
          {"add_generation_prompt", open},
          {"bos_token", t.bos() ? t.token(*t.bos()) : ""},
          {"eos_token", t.eos() ? t.token(*t.eos()) : ""}};
}

std::string written(const std::string& jinja, const Conversation& c, const Tokenizer& t, bool open) {
  return Jinja::parse(jinja).render(variables(c, t, open));
}

Conversation conversation_of(const TestJson& messages) {
  Conversation c;
  for (const auto& m : messages) {
    const auto role = m["role"].get<std::string>();
    const Role known = role == "system" ? Role::system : role == "user" ? Role::user : Role::assistant;
    c.messages.push_back({known, m["content"].get<std::string>(), "", std::nullopt});
  }
  return c;
}

std::unique_ptr<Tokenizer> bytes_with_turn_tokens() {
  return bytes_with({"<s>", "</s>", "[INST]", "[/INST]"}, "<s>", "</s>");
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

}  // namespace

TEST_CASE(
    "choice: of 31 published templates those that are one of the forms are found, the others refused with a "
    "reason") {
  struct Verdict {
    const char* name;
    Form form;         // `none`: refused
    const char* text;  // the default system message; of refusals a part of the reason
    bool bos = false;
  };
  const Form no = Form::none;
  const char* kStrange = "as none of them does";
  const std::vector<Verdict> verdicts = {
      {"_base", Form::chatml, ""},
      {"gpt2", no, kStrange},  // no marks of answers at all
      {"llama", Form::llama2, "", true},
      {"HuggingFaceH4/zephyr-7b-beta (add_generation_prompt=false)", no, "it says \"<|user|>"},
      {"HuggingFaceH4/zephyr-7b-beta (add_generation_prompt=true)", no, "it says \"<|user|>"},
      {"HuggingFaceH4/zephyr-7b-gemma-v0.1", Form::chatml, "", true},
      {"TheBloke/Mistral-7B-Instruct-v0.1-GPTQ", Form::mistral, "", true},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", Form::mistral, "", true},
      {"cognitivecomputations/dolphin-2.5-mixtral-8x7b", Form::chatml, ""},
      {"openchat/openchat-3.5-0106", no, kStrange},
      {"upstage/SOLAR-10.7B-Instruct-v1.0", no, kStrange},
      {"codellama/CodeLlama-70b-Instruct-hf", no, kStrange},
      {"Deci/DeciLM-7B-instruct", no, kStrange},
      {"Qwen/Qwen1.5-72B-Chat", Form::chatml, "You are a helpful assistant"},
      {"deepseek-ai/deepseek-llm-7b-chat", no, kStrange},
      {"h2oai/h2o-danube-1.8b-chat", no, "it says \"<|prompt|>"},
      {"internlm/internlm2-chat-7b", Form::chatml, "", true},
      {"TheBloke/deepseek-coder-33B-instruct-AWQ", no, kStrange},
      {"ericzzz/falcon-rw-1b-chat", no, "where llama2, the nearest, says"},
      {"abacusai/Smaug-34B-v0.1", no, kStrange},
      {"maywell/Synatra-Mixtral-8x7B", no, "where alpaca, the nearest, says"},
      {"deepseek-ai/deepseek-coder-33b-instruct", no, kStrange},
      // These two drop a system message, or write it only where tools are.
      {"mistralai/Mistral-7B-Instruct-v0.3 (JSON Schema)", no,
       "where mistral, the nearest, says \"[INST]You are brief."},
      {"CISCai/Mistral-7B-Instruct-v0.3-SOTA-GGUF", no,
       "where mistral, the nearest, says \"[INST]You are brief."},
      {"NousResearch/Hermes-2-Pro-Llama-3-8B (JSON Schema)", no, kStrange},
      // The system message in the last turn; see the next test for a tokenizer with its marks.
      {"mistralai/Mistral-Nemo-Instruct-2407", no, "where mistral, the nearest, says \"[INST]Be\\nkind."},
      {"meta-llama/Llama-3.1-8B-Instruct", no, "Today Date"},
      {"deepseek-ai/DeepSeek-R1", no, "<\uff5cUser\uff5c>"},
      {"Qwen/Qwen2.5-7B-Instruct", Form::chatml,
       "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
      {"Qwen/Qwen3-0.6B", no, "where chatml, the nearest, says"},  // takes reasoning out of earlier answers
      {"HuggingFaceTB/SmolLM3-3B", no, "it writes the date of the day (strftime_now)"}};
  const auto path = test::test_data("vectors/chat_templates.json");
  if (!path) return;
  const TestJson cases = json_data(*path);
  REQUIRE(cases.size() == verdicts.size());
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto& [name, form, text, bos] = verdicts[i];
    CAPTURE(name);
    const TestJson& data = cases[i]["data"];
    REQUIRE(cases[i]["name"] == name);
    const auto t = bytes_for_all(data.value("bos_token", "<s>"), data.value("eos_token", "</s>"));
    const auto jinja = cases[i]["chat_template"].get<std::string>();
    std::string why;
    const auto known = recognise(jinja, *t, &why);
    REQUIRE(known.has_value() == (form != Form::none));
    if (!known) {
      CHECK_MESSAGE(why.find(text) != std::string::npos, why);
      const auto own = bytes_for_all("<s>", "</s>", {{"chat_template", jinja}});
      CHECK_THROWS_WITH_AS(
          choose_chat(Form::automatic, std::nullopt, recipe::AddBos::automatic, *own, std::nullopt),
          doctest::Contains("llama3, chatml, llama2, mistral, vicuna, alpaca"), Error);
      continue;
    }
    CHECK(known->form == form);
    CHECK(known->default_system == text);
    CHECK(known->begins_with_bos == bos);
    if (data.contains("tools")) continue;
    // What the form writes is the published target, with the differences of that template at a turn's end.
    const ChatTemplate chat({form, known->default_system, bos}, *t);
    std::string ours =
        chat.text(conversation_of(data["messages"]), data.value("add_generation_prompt", false));
    auto target = cases[i]["target"].get<std::string>();
    if (std::string(name) == "Qwen/Qwen1.5-72B-Chat") target += "<|im_end|>\n";
    if (form == Form::mistral) ours = without_spaces(ours), target = without_spaces(target);
    CHECK(ours == target);
  }
}

TEST_CASE(
    "choice: where the marks are special tokens, Mistral Nemo's template is mistral: the system text stands "
    "last") {
  const auto path = test::test_data("vectors/chat_templates.json");
  if (!path) return;
  const auto t = bytes_with_turn_tokens();
  for (const auto& c : json_data(*path)) {
    if (c["name"] != "mistralai/Mistral-Nemo-Instruct-2407") continue;
    std::string why;
    const auto known = recognise(c["chat_template"].get<std::string>(), *t, &why);
    REQUIRE_MESSAGE(known.has_value(), why);
    CHECK(known->form == Form::mistral);
    CHECK(ChatTemplate({Form::mistral, "", false}, *t).text(conversation_of(c["data"]["messages"]), true) ==
          c["target"].get<std::string>());
  }
}

TEST_CASE("choice: Llama 3's own template is llama3") {
  const auto t = published("llama3");
  if (!t) return;
  const auto options =
      choose_chat(Form::automatic, std::nullopt, recipe::AddBos::automatic, *t, Form::alpaca);
  CHECK(options.form == Form::llama3);
  CHECK(options.default_system.empty());
}

TEST_CASE("choice: every form as Jinja is found as that form, with its system message and begin token") {
  const std::string odd = "It's \\ {{ x }} {% y %}\nline \"two\"\r\n\tthree";
  for (const Form form : kAllForms) {
    for (const std::string& system : {std::string(), std::string("Be kind."), odd}) {
      for (const bool bos : {false, true}) {
        for (const bool turn_tokens : {false, true}) {
          CAPTURE(recipe::word_of(form));
          CAPTURE(system);
          CAPTURE(bos);
          const auto t = turn_tokens ? bytes_with_turn_tokens() : bytes_for_all();
          const auto chat = chat_or_null({form, system, bos}, *t);
          if (!chat) continue;
          const std::string jinja = jinja_of(*chat);
          if (form == Form::none) {
            CHECK(jinja.empty());
            continue;
          }
          if (!turn_tokens && !bos) CHECK(jinja == jinja_of(form, system));
          std::string why;
          const auto known = recognise(jinja, *t, &why);
          REQUIRE_MESSAGE(known.has_value(), why);
          CHECK(known->form == form);
          CHECK(known->default_system == system);
          const bool own = form == Form::llama2 || form == Form::llama3 || form == Form::mistral;
          CHECK(known->begins_with_bos == (own || bos));
        }
      }
    }
  }
}

TEST_CASE(
    "choice: every form as Jinja writes what the form writes, for turns in any order, open and closed") {
  std::mt19937 random(3);
  for (const bool turn_tokens : {false, true}) {
    const auto t = turn_tokens ? bytes_with_turn_tokens() : bytes_for_all();
    for (const Form form : kAllForms) {
      for (const char* system : {"", "Be\nkind. "}) {
        const auto chat = chat_or_null({form, system, (random() & 1) == 0}, *t);
        if (!chat || form == Form::none) continue;
        const std::string jinja = jinja_of(*chat);
        for (int i = 0; i < 60; ++i) {
          const Conversation c = random_conversation(&random, form, false);
          for (const bool open : {false, true}) {
            CAPTURE(recipe::word_of(form));
            CAPTURE(variables(c, *t, open).dump());
            REQUIRE(written(jinja, c, *t, open) == chat->text(c, open));
          }
        }
      }
    }
  }
}

TEST_CASE("choice: a program that runs the exported Jinja and reads its text makes the same ids") {
  struct Pair {
    const char* tokenizer;
    Form form;
  };
  std::mt19937 random(4);
  for (const auto& [name, form] :
       {Pair{"llama2", Form::llama2}, Pair{"llama3", Form::llama3}, Pair{"qwen3", Form::chatml},
        Pair{"gpt2", Form::alpaca}, Pair{"gpt2", Form::vicuna}, Pair{"mistral_v1", Form::mistral}}) {
    const auto t = published(name);
    if (!t) return;
    const ChatTemplate chat({form, "", false}, *t);
    const std::string jinja = jinja_of(chat);
    for (int i = 0; i < 100; ++i) {
      Conversation c = random_conversation(&random, form, true);
      // An answer in front, or behind another, begins a text of its own: joined texts have a space less there.
      std::erase_if(c.messages, [&, before = Role::system](const Message& m) mutable {
        const bool drop = m.role == Role::assistant && before != Role::user;
        if (!drop) before = m.role;
        return drop;
      });
      if (c.messages.empty()) continue;
      CAPTURE(name);
      CAPTURE(variables(c, *t, true).dump());
      REQUIRE(t->encode_with_specials(written(jinja, c, *t, true)) == chat.prompt(c));
    }
  }
}

TEST_CASE("choice: a template that writes today's date is never one of the forms") {
  const auto t = bytes_for_all();
  const std::string chatml = jinja_of(Form::chatml, "");
  REQUIRE(recognise(chatml, *t).has_value());
  std::string why;
  CHECK_FALSE(
      recognise("{%- if strftime_now is defined -%}{%- set d = strftime_now('%Y') -%}{%- endif -%}" + chatml,
                *t, &why));
  CHECK(why == "it writes the date of the day (strftime_now)");
}

TEST_CASE("choice: a template without marks for answers is refused before anything is trained") {
  for (const char* jinja :
       {"{% for m in messages %}{{ m['content'] }}{% endfor %}", "", "{{ bos_token }}", "{% broken",
        "{{ raise_exception('no') }}", "{% for i in range(1000000000) %}x{% endfor %}"}) {
    CAPTURE(jinja);
    const auto t = bytes_for_all("<s>", "</s>", {{"chat_template", jinja}});
    try {
      choose_chat(Form::automatic, std::nullopt, recipe::AddBos::automatic, *t, Form::alpaca);
      FAIL("not refused");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::model);
      CHECK(std::string(e.what()).find("the model's own chat_template is none of those") !=
            std::string::npos);
      CHECK(std::string(e.what()).find("name it in data.chat_template") != std::string::npos);
    }
  }
}

TEST_CASE("choice: a template that is somebody's endless program is refused within a bounded time") {
  const auto t = bytes_for_all();
  const std::string busy = "{%- for i in range(100000) -%}{%- set x = i -%}{%- endfor -%}";
  for (const std::string& jinja :
       {busy + jinja_of(Form::alpaca, ""), busy + busy + busy + busy + busy + busy + busy + busy,
        std::string(300000, 'x')}) {
    const auto begin = std::chrono::steady_clock::now();
    recognise(jinja, *t);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  }
}

TEST_CASE("choice: a named template wins over the model's own; auto falls back only where there is none") {
  const auto silent = bytes_for_all(),
             own = bytes_for_all("<s>", "</s>", {{"chat_template", jinja_of(Form::chatml, "Hi.")}});
  const auto choose = [](const Tokenizer& t, Form wanted, std::optional<Form> fallback) {
    return choose_chat(wanted, std::nullopt, recipe::AddBos::automatic, t, fallback);
  };
  CHECK(choose(*own, Form::automatic, Form::alpaca).form == Form::chatml);
  CHECK(choose(*own, Form::automatic, Form::alpaca).default_system == "Hi.");
  CHECK(choose(*own, Form::vicuna, Form::alpaca).form == Form::vicuna);
  CHECK(choose(*own, Form::vicuna, Form::alpaca).default_system.empty());
  CHECK(choose(*silent, Form::automatic, Form::alpaca).form == Form::alpaca);
  CHECK_THROWS_WITH_AS(choose(*silent, Form::automatic, std::nullopt),
                       doctest::Contains("auto finds no chat_template in the model's files"), Error);
  for (const char* prompt : {"", "Be brief."})
    CHECK(
        choose_chat(Form::automatic, prompt, recipe::AddBos::automatic, *own, std::nullopt).default_system ==
        prompt);
}

TEST_CASE("choice: the begin token follows the recipe, else the template, else the tokenizer") {
  using recipe::AddBos;
  const TestJson adds = {{"add_bos_token", true}};
  TestJson adds_and_chatml = adds;
  adds_and_chatml["chat_template"] = jinja_of(Form::chatml, "");
  const auto eager = bytes_for_all("<s>", "</s>", adds), modest = bytes_for_all();
  const auto own = bytes_for_all("<s>", "</s>", adds_and_chatml);
  const auto wants = [](const Tokenizer& t, Form form, AddBos add) {
    return choose_chat(form, std::nullopt, add, t, std::nullopt).add_bos;
  };
  REQUIRE(eager->adds_bos());
  CHECK(wants(*eager, Form::chatml, AddBos::automatic));
  CHECK_FALSE(wants(*modest, Form::chatml, AddBos::automatic));
  CHECK_FALSE(wants(*own, Form::automatic, AddBos::automatic));  // its template writes none
  for (const Tokenizer* t : {eager.get(), modest.get(), own.get()}) {
    CHECK(wants(*t, Form::chatml, AddBos::yes));
    CHECK_FALSE(wants(*t, Form::chatml, AddBos::no));
  }
}

TEST_CASE(
    "choice: of a list of templates the one named default counts; other things in its place are refused") {
  const auto own = [](const TestJson& value) {
    return own_template(*bytes_for_all("<s>", "</s>", {{"chat_template", value}}));
  };
  CHECK(own("x") == "x");
  CHECK_FALSE(own(nullptr).has_value());
  CHECK(own({{{"name", "tool_use"}, {"template", "a"}}, {{"name", "default"}, {"template", "b"}}}) == "b");
  CHECK_FALSE(own({{{"name", "tool_use"}, {"template", "a"}}}).has_value());
  CHECK_FALSE(own({{{"name", 3}}, 4, nullptr}).has_value());
  for (const TestJson& odd : {TestJson(3), TestJson::object(), TestJson(true)})
    CHECK_THROWS_WITH_AS(own(odd), doctest::Contains("neither a text nor a list"), Error);
}

}  // namespace zt::text
