// The project's own instruction set: what it promises, and that a small run on it makes a model answer questions that were
// held out. The recipe is recipes/instruct-tiny.yaml as it is shipped.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/text.h"
#include "e2e/program.h"

namespace zt::test {
namespace {

// Of 140. Four runs with seeds 1 to 4 answered 130, 107, 111 and 108; another machine's rounding is like another seed.
constexpr int kRight = 90;

std::filesystem::path instruction_set(const std::string& name) {
  return source_dir() / "data" / "instruct" / name;
}

std::vector<nlohmann::json> rows(const std::string& name) {
  return json_lines(read_file(instruction_set(name)));
}

// Words and numbers of a question: all that is not the question's form.
struct About {
  std::set<std::string> words;
  std::vector<int> numbers;  // in ascending order
};

About about(const std::string& question) {
  About found;
  std::string word;
  for (const char c : question + ' ') {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0)
        found.numbers.push_back(std::stoi(word));
      else
        found.words.insert(word);
      word.clear();
    }
  }
  std::ranges::sort(found.numbers);
  return found;
}

// The answer, computed again from the question's words.
std::string right_answer(const std::string& question) {
  const std::vector<std::string> words = split(question.substr(0, question.size() - 1), ' ');
  const std::vector<int> n = about(question).numbers;
  const std::string& last = words.back();
  if (starts_with(question, "Repeat ")) return last;
  if (starts_with(question, "First letter of ")) return last.substr(0, 1);
  if (starts_with(question, "Last letter of ")) return last.substr(last.size() - 1);
  if (starts_with(question, "How many letters has ")) return std::to_string(last.size());
  if (starts_with(question, "What comes after ")) return std::to_string(n.at(0) + 1);
  if (starts_with(question, "Which is larger, ")) return std::to_string(n.at(1));
  if (starts_with(question, "What is ")) return std::to_string(n.at(0) + n.at(1));
  return cat("what is asked here? ", question);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs training_pairs() {
  Pairs pairs;
  for (const auto& row : rows("train.jsonl")) {
    for (const auto& turn : row["history"]) pairs.emplace_back(turn[0], turn[1]);
    pairs.emplace_back(row["instruction"], row["output"]);
  }
  return pairs;
}

// Right answers and questions, by task.
using Score = std::map<std::string, std::pair<int, int>>;

Score ask_all(const Desk& desk, const std::string& model) {
  const Outcome o = desk.run({"generate", "--model", model, "--chat", "--greedy", "--max-tokens", "16",
                              "--prompts", instruction_set("held-out.jsonl")});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const auto answers = json_lines(o.out);
  const auto asked = rows("held-out.jsonl");
  REQUIRE(answers.size() == asked.size());
  Score score;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    REQUIRE(answers[i]["prompt"] == asked[i]["messages"][0]["content"]);
    REQUIRE(answers[i]["expected"] == asked[i]["messages"][1]["content"]);
    auto& [right, questions] = score[asked[i]["task"]];
    ++questions;
    if (answers[i]["answer"] == answers[i]["expected"]) ++right;
  }
  return score;
}

int total(const Score& score) {
  int sum = 0;
  for (const auto& [task, numbers] : score) sum += numbers.first;
  return sum;
}

std::string in_words(const Score& score) {
  std::vector<std::string> parts;
  for (const auto& [task, numbers] : score)
    parts.push_back(cat(task, " ", numbers.first, "/", numbers.second));
  return cat(total(score), " right: ", join(parts, ", "));
}

// Trains the shipped recipe into the folder `out` of the desk.
void train(const Desk& desk, const Words& more) {
  Words words = {"--recipe", source_dir() / "recipes" / "instruct-tiny.yaml",
                 "--set",    "run.output_dir=out",
                 "--set",    cat("data.train[0].path=", instruction_set("train.jsonl").string()),
                 "--set",    cat("data.validation[0].path=", instruction_set("held-out.jsonl").string())};
  words.insert(words.end(), more.begin(), more.end());
  // About a minute on two cores that are free.
  const Outcome o = desk.finish(desk.start(words), 600);
  REQUIRE_MESSAGE(o.status == 0, o.err);
}

}  // namespace

TEST_CASE("instruction set: every answer is right, and its files are what scripts/make_instruct.py writes") {
  const Pairs trained = training_pairs();
  CHECK(trained.size() >= 2000);
  for (const auto& [question, answer] : trained) CHECK(answer == right_answer(question));
  for (const auto& row : rows("held-out.jsonl")) {
    const std::string question = row["messages"][0]["content"];
    CHECK(row["messages"][1]["content"] == right_answer(question));
  }
  const Desk desk;
  const std::string script = source_dir() / "scripts" / "make_instruct.py";
  const Outcome o = desk.finish(desk.start_command(
      {"sh", "-c", "command -v python3 >/dev/null || exit 77; exec python3 \"$0\" --check", script}));
  if (o.status == 77) {
    MESSAGE("skipped: no python3 to make the instruction set anew");
    return;
  }
  CHECK_MESSAGE(o.status == 0, o.err);
}

TEST_CASE(
    "instruction set: no held-out question is trained, nor another one about the same words or numbers") {
  std::set<std::string> words;
  std::set<std::vector<int>> numbers;
  for (const auto& [question, answer] : training_pairs()) {
    const About a = about(question);
    words.insert(a.words.begin(), a.words.end());
    if (!a.numbers.empty()) numbers.insert(a.numbers);
  }
  std::map<std::string, int> asked;
  for (const auto& row : rows("held-out.jsonl")) {
    const std::string question = row["messages"][0]["content"];
    CAPTURE(question);
    ++asked[row["task"]];
    const About a = about(question);
    if (!a.numbers.empty())
      CHECK(numbers.count(a.numbers) == 0);
    else
      CHECK(words.count(split(question.substr(0, question.size() - 1), ' ').back()) == 0);
  }
  CHECK(asked.size() == 7);
  for (const auto& [task, times] : asked) CHECK_MESSAGE(times == 20, task);
}

TEST_CASE("instruction set: before the recipe's run no held-out question is answered, after it most are") {
  const Desk desk;
  // One step at a rate of nearly nothing: the model as it begins.
  train(desk, {"--set", "run.output_dir=before", "--set", "train.max_steps=1", "--set",
               "lr_schedule.warmup_steps=1", "--set", "optimizer.learning_rate=1e-12"});
  const Score before = ask_all(desk, "before/export");
  train(desk, {});
  const Score after = ask_all(desk, "out/export");
  MESSAGE("before: ", in_words(before));
  MESSAGE("after: ", in_words(after));
  CHECK(total(before) <= 2);
  CHECK(total(after) >= kRight);
  // No part of it is by heart: every kind is answered better than by guessing.
  for (const auto& [task, numbers] : after) CHECK_MESSAGE(numbers.first > before.at(task).first, task);
}

TEST_CASE("generate --prompts: each prompt of a file is answered as it would be alone") {
  const Desk desk;
  train(desk, {"--set", "train.max_steps=1", "--set", "lr_schedule.warmup_steps=1"});
  desk.write("lines.txt", "\xef\xbb\xbfHi\r\n\nFirst letter of lamp?");
  desk.write("rows.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n"
             "{\"messages\": [{\"role\": \"user\", \"content\": \"First letter of lamp?\"}, {\"role\": "
             "\"assistant\", \"content\": \"l\"}]}\n");
  const Words ask = {"generate", "--model", "out/export", "--max-tokens", "12", "--seed", "3"};
  const auto generate = [&](Words more) {
    more.insert(more.begin(), ask.begin(), ask.end());
    const Outcome o = desk.run(more);
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return o.out;
  };
  // An untrained model says bytes that are no text; JSON has U+FFFD in their place, and so has this.
  const auto as_text = [](const std::string& bytes) {
    return nlohmann::json::parse(
               nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
        .get<std::string>();
  };
  const Words prompts = {"Hi", "First letter of lamp?"};
  const auto lines = json_lines(generate({"--chat", "--prompts", "lines.txt"}));
  const auto from_rows = json_lines(generate({"--chat", "--prompts", "rows.jsonl"}));
  const auto plain = json_lines(generate({"--prompts", "lines.txt"}));
  REQUIRE(lines.size() == 2);
  REQUIRE(from_rows.size() == 2);
  REQUIRE(plain.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(lines[i]["prompt"] == prompts[i]);
    CHECK(from_rows[i]["answer"] == lines[i]["answer"]);
    CHECK(as_text(generate({"--chat", "--prompt", prompts[i]})) ==
          lines[i]["answer"].get<std::string>() + "\n");
    CHECK(as_text(generate({"--prompt", prompts[i]})) ==
          prompts[i] + plain[i]["answer"].get<std::string>() + "\n");
  }
  CHECK_FALSE(from_rows[0].contains("expected"));
  CHECK(from_rows[1]["expected"] == "l");
  // A system message is put in front of each.
  CHECK(json_lines(generate({"--chat", "--system", "Be brief.", "--prompts", "rows.jsonl"}))[1]["answer"] !=
        lines[1]["answer"]);
}

TEST_CASE("generate --prompts: all faults of the file are told before the first answer") {
  const Desk desk;
  train(desk, {"--set", "train.max_steps=1", "--set", "lr_schedule.warmup_steps=1"});
  const std::string good = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n";
  desk.write("rows.jsonl", good + "{\"messages\": 3}\n" + good +
                               "{\"messages\": [{\"role\": \"assistant\", \"content\": \"Hi\"}]}\n");
  desk.write("good.json", good);
  desk.write("long.txt", "Hi\n" + std::string(300, 'x') + "\nHi\n" + std::string(301, 'y') + "\n");
  desk.write("bytes.txt", "Hi\n\xff\n");
  desk.write("empty.txt", "\n \n");
  struct Case {
    Words more;
    int status;
    Words says;
  };
  const std::vector<Case> cases = {
      {{"--chat", "--prompts", "rows.jsonl"},
       3,
       {"rows.jsonl:2:", "rows.jsonl:4:1: the row has an answer, but no message before it"}},
      {{"--prompts", "good.json"}, 2, {"the rows of good.json are conversations", "--chat"}},
      {{"--prompts", "long.txt"},
       3,
       {"long.txt:2: the prompt has 300 tokens; the model's context is 256",
        "long.txt:4: the prompt has 301"}},
      {{"--prompts", "bytes.txt"}, 3, {"bytes.txt:2: the line is not UTF-8"}},
      {{"--prompts", "empty.txt"}, 3, {"empty.txt holds no prompt"}},
      {{"--prompts", "nothere.txt"}, 3, {"nothere.txt"}},
      {{"--prompts", "long.txt", "--prompt", "Hi"}, 2, {"--prompt excludes --prompts"}}};
  for (const Case& c : cases) {
    Words words = {"generate", "--model", "out/export", "--max-tokens", "4"};
    words.insert(words.end(), c.more.begin(), c.more.end());
    const Outcome o = desk.run(words);
    CAPTURE(o.err);
    CHECK(o.status == c.status);
    CHECK(o.out == "");
    for (const std::string& part : c.says) CHECK(contains(o.err, part));
  }
}

}  // namespace zt::test
