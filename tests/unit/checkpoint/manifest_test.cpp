// The manifest: its text and back, and everything hostile that may be in it.
#include "checkpoint/manifest.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/text.h"
#include "pretend.h"

using namespace zt;
using namespace zt::checkpoint;
using namespace zt::test;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

const std::string kSome(32, 'a');

// Two ranks, one tensor with moments and a frozen one.
Manifest small() {
  Manifest m;
  m.state = state_of(100, 2);
  m.files = {{"rank-00000-of-00002.h5", {4000, kSome}},
             {"rank-00001-of-00002.h5", {4000, kSome}},
             {"model.h5", {900, kSome}},
             {"hf/config.json", {2, kSome}}};
  StoredTensor w{{3, 5}, {}};
  for (const Kind kind : kKinds)
    w.of(kind) = {{0, 0, 8, 1000 + 100 * int(kind), kSome}, {1, 8, 7, 1000 + 100 * int(kind), kSome}};
  StoredTensor frozen{{4}, {}};
  frozen.of(Kind::value) = {{0, 0, 4, 2000, kSome}};
  m.tensors = {{"w", w}, {"frozen", frozen}};
  return m;
}

// The text with a digest that fits it, as somebody who means harm would write it.
std::string sign(std::string text) {
  const std::size_t at = text.find("\"digest\": \"") + 11;
  text.replace(at, 32, 32, '0');
  return text.replace(at, 32, digest_of(text));
}

std::string text_of(const ordered_json& object) { return sign(object.dump(2, ' ')); }

// What reading the manifest says after `change`; fails when it is taken.
std::string refusal(const std::function<void(ordered_json&)>& change) {
  ordered_json object = ordered_json::parse(to_text(small()));
  change(object);
  const Error e = error_of([&] { manifest_from_text(text_of(object), "M"); });
  CHECK(e.blame() == Blame::model);
  return e.what();
}

}  // namespace

TEST_CASE("manifest: text and back, again and again the same") {
  const std::string text = to_text(small());
  CHECK(manifest_from_text(text, "M") == small());
  CHECK(to_text(manifest_from_text(text, "M")) == text);
  // Another writer's spacing is not ours; what it says is.
  CHECK(ordered_json::parse(text)["tensors"]["w"]["value"][1] == ordered_json({1, 8, 7, 1000, kSome}));
  CHECK(ordered_json::parse(text)["format"] == "zerotrain checkpoint");
}

TEST_CASE("manifest: numbers of the state come back with every bit") {
  Manifest m = small();
  m.state.loss_scale.scale = 0x1.fffffffffffffp-3;
  m.state.samples = std::numeric_limits<std::int64_t>::max();
  m.state.seed = std::numeric_limits<std::int64_t>::min();
  m.state.learning_rate = {{"peak", 0.1 + 0.2}, {"betas", {0.9, 0.95}}, {"decay_steps", nullptr}};
  CHECK(manifest_from_text(to_text(m), "M").state == m.state);
}

TEST_CASE("manifest: text that isn't UTF-8 does not stop a save, and what was saved can be read") {
  Manifest m = small();
  m.state.recipe = "name: \xff\xfe";
  CHECK(says(manifest_from_text(to_text(m), "M").state.recipe, "name: "));
}

TEST_CASE("manifest: one changed, missing or added byte is noticed") {
  const std::string text = to_text(small());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (std::string bad :
         {std::string(text).replace(i, 1, 1, char(text[i] ^ 1)), std::string(text).erase(i, 1),
          std::string(text).insert(i, " "), text.substr(0, i)}) {
      if (bad == text) continue;
      bool refused = false;
      try {
        manifest_from_text(bad, "M");
      } catch (const Error& e) {
        refused = e.blame() == Blame::model;
      }
      if (!refused) FAIL("at byte ", i, " of ", text.size(), ": ", bad);
    }
  }
}

TEST_CASE("manifest: another format or version is told apart from damage") {
  CHECK(
      says(error_of([] { manifest_from_text("{}", "M"); }).what(), "M is not the manifest of a checkpoint"));
  CHECK(says(error_of([] { manifest_from_text("", "M"); }).what(), "M is not JSON"));
  CHECK(says(error_of([] { manifest_from_text("[1]", "M"); }).what(), "M must hold a JSON object"));
  const Error e =
      error_of([] { manifest_from_text(R"({"format": "zerotrain checkpoint", "version": 3})", "M"); });
  CHECK_MESSAGE(says(e.what(), "M has version '3', this program reads versions 1 to 2"), e.what());
  CHECK(says(error_of([] { manifest_from_text(std::string(100000, '['), "M"); }).what(), "nests deeper"));
}

TEST_CASE("manifest: every kind of hostile content is refused by name") {
  struct Case {
    const char* says;
    std::function<void(ordered_json&)> change;
  };
  const auto w = [](ordered_json& o) -> ordered_json& { return o["tensors"]["w"]; };
  const std::vector<Case> cases = {
      {"manifest.state is missing", [](auto& o) { o.erase("state"); }},
      {"manifest.tensors is missing", [](auto& o) { o.erase("tensors"); }},
      {"manifest has an unknown member 'extra'", [](auto& o) { o["extra"] = 1; }},
      {"tensors must be an object", [](auto& o) { o["tensors"] = 3; }},
      {"files must be an object", [](auto& o) { o["files"] = json::array(); }},
      {"state.step must be a whole number of at least 0, is '-1'", [](auto& o) { o["state"]["step"] = -1; }},
      {"state.step must be a whole number of at least 0, is '1.5'",
       [](auto& o) { o["state"]["step"] = 1.5; }},
      {"state.step must be", [](auto& o) { o["state"]["step"] = 18446744073709551615u; }},
      {"state.seed must be", [](auto& o) { o["state"]["seed"] = "42"; }},
      {"state.loss_scale.scale must be a number above 0, is 'null'",
       [](auto& o) { o["state"]["loss_scale"]["scale"] = nullptr; }},
      {"state.loss_scale.hysteresis is missing",
       [](auto& o) { o["state"]["loss_scale"].erase("hysteresis"); }},
      {"state.learning_rate must be an object", [](auto& o) { o["state"]["learning_rate"] = 1; }},
      {"state.dtype is unknown: 'int8'", [](auto& o) { o["state"]["dtype"] = "int8"; }},
      {"state.stage must be a whole number from 0 to 3", [](auto& o) { o["state"]["stage"] = 4; }},
      {"state has an unknown member 'epoch'", [](auto& o) { o["state"]["epoch"] = 1; }},
      {"state.ranks must be a whole number from 1 to 99999",
       [](auto& o) { o["state"]["ranks"] = 2000000000; }},
      {"files lack rank-00002-of-00003.h5", [](auto& o) { o["state"]["ranks"] = 3; }},
      {"files lack rank-00000-of-99999.h5", [](auto& o) { o["state"]["ranks"] = 99999; }},
      {"files lack model.h5", [](auto& o) { o["files"].erase("model.h5"); }},
      {"files name '../../etc/passwd'",
       [](auto& o) { o["files"]["../../etc/passwd"] = o["files"]["model.h5"]; }},
      {"files name '/etc/passwd'", [](auto& o) { o["files"]["/etc/passwd"] = o["files"]["model.h5"]; }},
      {"files name 'hf/../manifest.json'",
       [](auto& o) { o["files"]["hf/../manifest.json"] = o["files"]["model.h5"]; }},
      {"files name 'hf/..'", [](auto& o) { o["files"]["hf/.."] = o["files"]["model.h5"]; }},
      {"files name 'hf/'", [](auto& o) { o["files"]["hf/"] = o["files"]["model.h5"]; }},
      {"files name 'rank-00000-of-00001.h5'",
       [](auto& o) { o["files"]["rank-00000-of-00001.h5"] = o["files"]["model.h5"]; }},
      {"files name 'rank-00007-of-00002.h5'",
       [](auto& o) { o["files"]["rank-00007-of-00002.h5"] = o["files"]["model.h5"]; }},
      {"files['model.h5'].bytes must be", [](auto& o) { o["files"]["model.h5"]["bytes"] = -5; }},
      {"file 'model.h5' has no digest", [](auto& o) { o["files"]["model.h5"]["digest"] = "short"; }},
      {"has a name that no tensor has", [](auto& o) { o["tensors"]["../x"] = o["tensors"]["w"]; }},
      {"has a name that no tensor has", [](auto& o) { o["tensors"][""] = o["tensors"]["w"]; }},
      {"has a shape that no tensor has", [&](auto& o) { w(o)["shape"] = json::array(); }},
      {"has a shape that no tensor has", [&](auto& o) { w(o)["shape"] = {0, 5}; }},
      {"has a shape that no tensor has", [&](auto& o) { w(o)["shape"] = {-3, -5}; }},
      {"has a shape that no tensor has", [&](auto& o) { w(o)["shape"] = {1099511627776, 1099511627776}; }},
      {"has a shape that no tensor has", [&](auto& o) { w(o)["shape"] = {1, 1, 1, 1, 1, 1, 1, 3, 5}; }},
      {"shape must be an array of whole numbers", [&](auto& o) { w(o)["shape"] = {3, "5"}; }},
      {"'w' has no value", [&](auto& o) { w(o).erase("value"); }},
      {"'w' has one of the two moments", [&](auto& o) { w(o).erase("second_moment"); }},
      {"has no piece", [&](auto& o) { w(o)["value"] = json::array(); }},
      {"tensors['w'].value[1] must be [rank, first, count, offset, digest]",
       [&](auto& o) { w(o)["value"][1].erase(3); }},
      {"tensors['w'].value must be an array", [&](auto& o) { w(o)["value"] = "all"; }},
      {"value of 'w' lacks elements [8, 9)",
       [&](auto& o) {
         w(o)["value"][1][1] = 9;
         w(o)["value"][1][2] = 6;
       }},
      {"value of 'w' lacks elements [14, 15)", [&](auto& o) { w(o)["value"][1][2] = 6; }},
      {"value of 'w' lacks elements [0, 8)", [&](auto& o) { w(o)["value"].erase(0); }},
      {"overlap or are not in order at element 7", [&](auto& o) { w(o)["value"][1][1] = 7; }},
      {"overlap or are not in order", [&](auto& o) { std::swap(w(o)["value"][0], w(o)["value"][1]); }},
      {"does not lie in the tensor's 15 elements", [&](auto& o) { w(o)["value"][1][2] = 8; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][2] = 9223372036854775807; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][1] = -8; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][2] = 0; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][0] = 2; }},
      {"must be [rank, first", [&](auto& o) { w(o)["value"][1][0] = -1; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][3] = -4; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][3] = 9223372036854775807; }},
      {"does not lie in", [&](auto& o) { w(o)["value"][1][3] = 3973; }},
      {"a piece has no digest", [&](auto& o) { w(o)["value"][1][4] = "x"; }},
      {"rank-00000-of-00002.h5: /w/value and /w/first_moment overlap at byte 1028",
       [&](auto& o) { w(o)["first_moment"][0][3] = 1028; }},
      {"rank-00000-of-00002.h5: /w/value and /frozen/value overlap",
       [&](auto& o) { o["tensors"]["frozen"]["value"][0][3] = 1004; }},
      {"tensors['w'] has an unknown member 'third_moment'",
       [&](auto& o) { w(o)["third_moment"] = w(o)["value"]; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const std::string text = refusal(c.change);
    CHECK_MESSAGE(says(text, c.says), text);
  }
}

TEST_CASE("manifest: all faults come at once, but not thousands") {
  const std::string text = refusal([](ordered_json& o) {
    o["state"].erase("run_id");
    o["state"]["stage"] = -1;
    o["files"]["model.h5"] = 1;
  });
  for (const char* const part :
       {"state.run_id is missing", "state.stage must be", "files['model.h5'] must be an object"})
    CHECK_MESSAGE(says(text, part), text);
  const std::string many = refusal([](ordered_json& o) {
    for (int i = 0; i < 5000; ++i) o["tensors"][cat("t", i)] = 1;
  });
  CHECK(many.size() < 10000);
  CHECK(says(many, "more"));
}

TEST_CASE("manifest: random changes of signed values never crash") {
  std::mt19937 random(7);
  const std::string text = to_text(small());
  const std::string alphabet = "0123456789-.,:[]{}\"eE/x";
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 1 + i % 3; ++k)
      bad[100 + random() % (bad.size() - 100)] = alphabet[random() % alphabet.size()];
    try {
      const Manifest m = manifest_from_text(sign(bad), "M");
      if (!faults_of(m).empty()) FAIL("taken with faults");
      ++taken;
    } catch (const Error& e) {
      if (e.blame() != Blame::model) FAIL(e.what());
    }
  }
  CHECK(taken > 0);
}
