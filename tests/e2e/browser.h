// Pages as a browser shows them.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "e2e/program.h"
#include "plan/drawing.h"

namespace zt::test {

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
