// A small run for tests of what people watch it by, and the browser that shows them pages.
#pragma once

#include <doctest/doctest.h>

#include <sstream>

#include "base/text.h"
#include "e2e/program.h"
#include "plan/drawing.h"

namespace zt::test {

class WatchDesk : public Desk {
 public:
  WatchDesk() {
    write("recipe.yaml", R"(run: {name: small, output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 4,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}
tokenizer: {type: byte}
data:
  sequence_length: 32
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {max_steps: 40, micro_batch_size: 1, global_batch_size: 4, eval_every: 10}
optimizer: {learning_rate: 3e-3}
lr_schedule: {name: cosine, warmup_steps: 4}
checkpoint: {every_steps: 10}
)");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += cat("Line ", i, " says that the quick brown fox jumps over the lazy dog.\n");
    write("text.txt", text);
  }

  Outcome train(const Words& more) const {
    Words words = {"--recipe", "recipe.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return o;
  }
};

// The first browser of $PATH; empty without one.
inline std::string browser() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (std::filesystem::exists(std::filesystem::path(folder) / name))
        return std::filesystem::path(folder) / name;
  return "";
}

inline Words browser_command(const Desk& desk, bool dark) {
  return {browser(),
          "--headless",
          "--no-sandbox",
          "--disable-gpu",
          "--hide-scrollbars",
          "--user-data-dir=" + (desk.path() / "profile").string(),
          std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1")};
}

// What a script finds in a page that a browser shows in a frame of that width: `script` is the body of a function of
// `page` and `view` (document and window of the page) that returns an object.
inline nlohmann::json seen_by_browser(const Desk& desk, const std::string& html, int width, bool dark,
                                      const std::string& script) {
  desk.write(
      "frame.html",
      "<!DOCTYPE html><meta charset=utf-8><body><iframe style=\"border:0;width:" + std::to_string(width) +
          "px;height:3000px\" srcdoc=\"" + plan::xml_text(html) +
          "\"></iframe><script>onload = () => { const page = "
          "document.querySelector('iframe').contentDocument, view = page.defaultView; const result = (() => "
          "{" +
          script + "})(); document.body.textContent = 'RESULT' + JSON.stringify(result) + 'END'; }</script>");
  Words command = browser_command(desk, dark);
  for (const std::string& word : {std::string("--window-size=1500,3000"), std::string("--dump-dom"),
                                  "file://" + (desk.path() / "frame.html").string()})
    command.push_back(word);
  const Outcome outcome = desk.finish(desk.start_command(command), 120);
  const std::size_t from = outcome.out.find("RESULT"), to = outcome.out.rfind("END");
  CAPTURE(outcome.err);
  REQUIRE(from != std::string::npos);
  std::string text = outcome.out.substr(from + 6, to - from - 6);
  for (const auto& [reference, meaning] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}})
    for (std::size_t at = 0; (at = text.find(reference, at)) != std::string::npos; ++at)
      text.replace(at, std::string(reference).size(), meaning);
  return nlohmann::json::parse(text);
}

}  // namespace zt::test
