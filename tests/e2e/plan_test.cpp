// `zerotrain plan` as people and programs use it: what it prints, that it may be taken at its word, and that no input
// breaks it.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <regex>
#include <set>

#include "base/text.h"
#include "e2e/program.h"
#include "plan/cluster.h"
#include "plan/drawing.h"
#include "plan/work.h"
#include "support/xml.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string recipe_of(const std::string& config, const std::string& more) {
  return "run: {output_dir: out}\nmodel: {config: " + config +
         ", dtype: bfloat16}\ntokenizer: {type: byte}\n"
         "data: {sequence_length: 1024, train: [{path: text.txt}]}\noptimizer: {learning_rate: 1e-4}\n" +
         more;
}

const std::string kSmall = recipe_of(
    "{model_type: llama, hidden_size: 64, intermediate_size: 160, num_hidden_layers: 2,"
    " num_attention_heads: 4, max_position_embeddings: 1024}",
    "train: {max_steps: 4, micro_batch_size: 2, global_batch_size: 16}\n");
const std::string kGpt2 = recipe_of(
    "{model_type: gpt2, n_embd: 768, n_head: 12, n_layer: 12, n_positions: 1024, vocab_size: 50304}",
    "train: {max_steps: 4, micro_batch_size: 1, global_batch_size: 512}\n"
    "checkpoint: {every_steps: 2, async: true}\n");
const std::string k70B = recipe_of(
    "{model_type: llama, hidden_size: 8192, intermediate_size: 28672, num_hidden_layers: 80,"
    " num_attention_heads: 64, num_key_value_heads: 8, max_position_embeddings: 4096,"
    " vocab_size: 32000, tie_word_embeddings: false}",
    "train: {max_steps: 4, micro_batch_size: 2, global_batch_size: 256}\n");
// 11,257 billion parameters.
const std::string kHuge = recipe_of(
    "{model_type: llama, hidden_size: 131072, intermediate_size: 524288, num_hidden_layers: 40,"
    " num_attention_heads: 1024, max_position_embeddings: 8192, vocab_size: 1000000,"
    " tie_word_embeddings: false}",
    "train: {max_steps: 4, micro_batch_size: 1, global_batch_size: 1000000}\n");

// A desk with the recipes above. Its cache folder is its own, so no machine is calibrated until a test says so.
struct PlanDesk : Desk {
  PlanDesk() {
    write("small.yaml", kSmall);
    write("gpt2.yaml", kGpt2);
    write("70b.yaml", k70B);
    write("huge.yaml", kHuge);
  }
  Outcome plan(const std::string& recipe, const Words& more = {}) const {
    Words words = {"plan", "--recipe", recipe};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Json json(const std::string& recipe, Words more, int status = 0) const {
    more.push_back("--json");
    const Outcome o = plan(recipe, more);
    CHECK_MESSAGE(o.status == status, o.err);
    return Json::parse(o.out);
  }
  // The line as a shell reads it, settings pasted as they were printed.
  Outcome shell(const std::string& line) const {
    return finish(start_command({"sh", "-c", binary() + " plan " + line}));
  }
};

// A cluster of the program with a text in it replaced, wherever it stands.
std::string cluster_with(const std::string& name,
                         const std::vector<std::pair<std::string, std::string>>& swaps) {
  std::string text = read_file(source_dir() / "recipes/clusters" / (name + ".yaml"));
  for (const auto& [from, to] : swaps) {
    CAPTURE(from);
    REQUIRE(contains(text, from));
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

double children_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 10;
#else
constexpr double kSlowdown = 1;
#endif

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

// The backticked words of the first column of a document's tables from one heading to another.
std::set<std::string> first_column(const std::string& document, const std::string& from,
                                   const std::string& to) {
  const std::size_t begin = document.find(from), end = to.empty() ? document.size() : document.find(to);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  std::set<std::string> words;
  for (const std::string& line : split(document.substr(begin, end - begin), '\n'))
    if (line.starts_with("| `")) words.merge(matches(line.substr(0, line.find('|', 1)), "`([^`]+)`"));
  return words;
}

std::string docs(const std::string& name) { return read_file(source_dir() / "docs/formats" / name); }

// Paths of all values: "rows[].id"; ids of the bill are "bytes.*".
void add_paths(const Json& value, const std::string& path, std::set<std::string>* paths) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      add_paths(inner, path == "bytes" ? "bytes.*" : path.empty() ? key : path + "." + key, paths);
  } else if (value.is_array()) {
    for (const Json& inner : value) add_paths(inner, path + "[]", paths);
  } else {
    paths->insert(path);
  }
}

// Numbers that are not finite would be printed as null.
void add_nulls(const Json& value, const std::string& path, std::set<std::string>* paths) {
  if (value.is_null()) paths->insert(path);
  if (value.is_structured())
    for (const auto& [key, inner] : value.items())
      add_nulls(inner, value.is_array() ? path + "[]" : path.empty() ? key : path + "." + key, paths);
}

const std::set<std::string> kMayBeNull = {"available_bytes", "fits", "time.calibrated", "time.mfu",
                                          "time.waits[].tokens_to_hide"};

void check_only_allowed_nulls(const Json& json) {
  std::set<std::string> nulls;
  add_nulls(json, "", &nulls);
  for (const std::string& path : nulls) CHECK_MESSAGE(kMayBeNull.contains(path), path);
}

// "  7.43 s" of the line "  step      7.43 s".
std::string step_line(const std::string& text) {
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("  step ") && !contains(line, "settings")) return std::string(trim(line.substr(7)));
  return "";
}

std::string line_with(const std::string& text, const std::string& part) {
  for (const std::string& line : split(text, '\n'))
    if (contains(line, part)) return line;
  return "";
}

}  // namespace

TEST_CASE("plan: every key of the JSON is documented, and every documented key is there") {
  const PlanDesk desk;
  const std::vector<Json> outputs = {
      desk.json("small.yaml", {}), desk.json("small.yaml", {"--ranks", "2", "--device", "cpu-25gbe"}),
      desk.json("gpt2.yaml", {"--ranks", "64", "--device", "a100-40gb"}),
      desk.json("70b.yaml", {"--ranks", "64", "--device", "h100-80gb", "--search", "--set",
                             "memory.recompute=full", "--set", "train.micro_batch_size=1"}),
      desk.json("70b.yaml", {"--ranks", "16", "--device", "h100-80gb"}, 7)};
  std::set<std::string> seen, ids;
  for (const Json& json : outputs) {
    add_paths(json, "", &seen);
    for (const auto& [id, bytes] : json["bytes"].items()) ids.insert(id);
    check_only_allowed_nulls(json);
  }
  const std::string text = docs("plan.md");
  const std::set<std::string> documented = first_column(text, "## Always there", "## Rows of the bill");
  for (const std::string& key : seen) CHECK_MESSAGE(documented.contains(key), "not documented: ", key);
  for (const std::string& key : documented) CHECK_MESSAGE(seen.contains(key), "never printed: ", key);

  const std::set<std::string> known = first_column(text, "## Rows of the bill", "## An example");
  for (const std::string& id : ids) CHECK_MESSAGE(known.contains(id), "not documented: ", id);
  const std::string source =
      read_file(source_dir() / "src/plan/bill.cpp") + read_file(source_dir() / "src/plan/memory_timeline.h");
  for (const std::string& id : known)
    CHECK_MESSAGE(contains(source, "\"" + id + "\""), "not in a bill: ", id);
  CHECK(known.size() == 27);
}

TEST_CASE("plan: the JSON's sums are sums, and the text tells the same") {
  const PlanDesk desk;
  for (const Words& more : {Words{}, Words{"--ranks", "4"}, Words{"--ranks", "8", "--device", "h100-80gb"}}) {
    const Json json = desk.json("small.yaml", more);
    const std::string text = desk.plan("small.yaml", more).out;
    std::int64_t device = 0;
    for (const Json& row : json["rows"]) {
      CHECK(json["bytes"][row["id"].get<std::string>()] == row["bytes"]);
      if (row["place"] == "device") device += row["bytes"].get<std::int64_t>();
      CHECK_MESSAGE(contains(text, with_commas(row["bytes"])), text);
    }
    CHECK(json["total_bytes"] == device);
    CHECK(json["timeline"]["constant_bytes"].get<std::int64_t>() + json["arena_bytes"].get<std::int64_t>() ==
          device);
    CHECK(json["timeline"]["live_bytes"].size() == json["train_ops"].get<std::size_t>());
    if (!json.contains("time")) continue;
    double sum = 0;
    for (const auto& [id, seconds] : json["time"]["parts"].items()) sum += seconds.get<double>();
    CHECK(sum == doctest::Approx(json["time"]["step_seconds"].get<double>()));
    for (const char* kind : {"all_gather", "reduce_scatter", "all_reduce"})
      CHECK(json["traffic_inside_node"][kind].get<std::int64_t>() +
                json["traffic_between_nodes"][kind].get<std::int64_t>() ==
            json["traffic"][kind].get<std::int64_t>());
  }
}

TEST_CASE("plan: what does not fit is status 7, and the nearest settings fit when they are pasted") {
  const PlanDesk desk;
  int nearest = 0, hopeless = 0;
  for (const std::string memory :
       {"20000000000", "45000000000", "60000000000", "85000000000", "130000000000"}) {
    CAPTURE(memory);
    desk.write("c.yaml", cluster_with("h100-80gb", {{"85000000000", memory}}));
    for (const std::string recipe : {"70b.yaml --ranks 64", "70b.yaml --ranks 128"}) {
      const std::string line = "--recipe " + recipe + " --device c.yaml ";
      const Json json = Json::parse(desk.shell(line + "--json").out);
      const Outcome told = desk.shell(line);
      CHECK(told.status == (json["fits"] ? 0 : 7));
      if (json["fits"]) {
        CHECK(contains(told.out, "\nfits: "));
        CHECK_FALSE(json.contains("nearest_fit"));
        continue;
      }
      CHECK(contains(told.out, "\ndoes not fit: a rank needs "));
      const std::string settings = json["nearest_fit"]["settings"];
      if (settings.empty()) {
        ++hopeless;
        CHECK(contains(told.out, "is enough, the least is "));
        CHECK(contains(told.out, "take more ranks, or a device with more memory"));
        continue;
      }
      ++nearest;
      CAPTURE(settings);
      CHECK(contains(told.out, ": " + settings + "\n"));
      const Outcome again = desk.shell(line + settings + " --json");
      REQUIRE_MESSAGE(again.status == 0, again.err);
      const Json fitting = Json::parse(again.out);
      CHECK(fitting["needed_bytes"] <= std::stoll(memory));
      CHECK(fitting["needed_bytes"].get<double>() ==
            doctest::Approx(json["nearest_fit"]["bytes"].get<double>()).epsilon(0.01));
    }
  }
  CHECK(nearest >= 4);
  CHECK(hopeless >= 1);
}

TEST_CASE("plan: settings that a search or an advice prints take the time and memory it says when pasted") {
  const PlanDesk desk;
  // 16, 64 and 128 micro-batches, of which a search plays few.
  for (const std::string device :
       {"--ranks 32 --device a100-40gb ", "--ranks 8 --device h100-80gb ", "--ranks 4 --device cpu-25gbe "}) {
    const std::string line = "--recipe gpt2.yaml " + device;
    CAPTURE(line);
    const Outcome told = desk.shell(line + "--search");
    REQUIRE_MESSAGE(told.status == 0, told.err);
    const Json json = Json::parse(desk.shell(line + "--search --json").out);
    REQUIRE(json["search"]["best"].size() >= 3);
    std::vector<Json> all = json["search"]["best"];
    if (json.contains("advice"))
      for (const Json& one : json["advice"]) all.push_back(one);
    double before = 0;
    for (const Json& one : json["search"]["best"]) {
      CHECK(one["step_seconds"].get<double>() >= before);
      before = one["step_seconds"];
    }
    for (const Json& one : all) {
      const std::string settings = one["settings"];
      CAPTURE(settings);
      const Json played = Json::parse(desk.shell(line + settings + " --json").out);
      CHECK(played["time"]["step_seconds"].get<double>() ==
            doctest::Approx(one["step_seconds"].get<double>()).epsilon(0.002));
      CHECK(played["needed_bytes"] == one["bytes"]);
    }
    // The first line below the table's head, as it is printed.
    const std::vector<std::string> lines = split(told.out, '\n');
    const auto head =
        std::ranges::find_if(lines, [](const std::string& l) { return contains(l, "of yours"); });
    REQUIRE(head + 1 < lines.end());
    const std::string settings = (head + 1)->substr((head + 1)->find("--set"));
    CHECK(contains(*(head + 1), step_line(desk.shell(line + settings).out)));
  }
}

TEST_CASE("plan: the page and the picture are well-formed, alone, and say the run's name as text") {
  const PlanDesk desk;
  const std::string name = "<script>alert('x') & \"y\"";
  const Words words = {"--ranks",
                       "16",
                       "--device",
                       "h100-80gb",
                       "--search",
                       "--html",
                       "p.html",
                       "--svg",
                       "p.svg",
                       "--set",
                       "run.name='" + std::regex_replace(name, std::regex("'"), "''") + "'"};
  const Outcome o = desk.plan("gpt2.yaml", words);
  REQUIRE_MESSAGE(o.status == 0, o.err);
  CHECK(o.err == "wrote p.html\nwrote p.svg\n");
  const std::vector<XmlElement> picture = parse_xml(desk.read("p.svg"));
  CHECK(picture.at(0).tag == "svg");
  std::string html = desk.read("p.html");
  const std::string doctype = "<!DOCTYPE html>\n";
  REQUIRE(html.starts_with(doctype));
  html.erase(0, doctype.size());
  for (std::size_t at = 0; (at = html.find("<meta ", at)) != std::string::npos; ++at)
    html.insert(html.find('>', at), "/");
  const std::vector<XmlElement> page = parse_xml(html);
  CHECK(elements(page, "script").empty());
  CHECK(elements(page, "h1").at(0).text == "Plan of " + name);
  CHECK(elements(page, "title").at(0).text == "Plan of " + name);
  CHECK(elements(page, "svg").size() >= 2);
  for (const std::vector<XmlElement>& document : {picture, page})
    for (const XmlElement& e : document)
      for (const auto& [attribute, value] : e.attributes) {
        CHECK_FALSE(contains(value, "nan"));
        if (attribute == "href" || attribute == "src") CHECK(value.starts_with("#"));
      }
}

TEST_CASE("plan: files it is told to write replace files, and nothing else") {
  const PlanDesk desk;
  desk.write("old.svg", "<svg class=\"old\"/>");
  CHECK(desk.plan("small.yaml", {"--svg", "old.svg"}).status == 0);
  CHECK_FALSE(contains(desk.read("old.svg"), "old"));
  desk.write("notes.svg", "notes");
  CHECK(desk.plan("small.yaml", {"--svg", "notes.svg"}).status != 0);
  CHECK(desk.read("notes.svg") == "notes");
  const Outcome nowhere = desk.plan("small.yaml", {"--html", "no/such/p.html"});
  CHECK(nowhere.status == 7);
  CHECK(contains(nowhere.err, "error: cannot create no/such/p.html"));
  CHECK(contains(nowhere.err, "hint: "));
  CHECK(contains(nowhere.out, "memory of a rank"));
  fs::create_directory(desk.path() / "folder");
  CHECK(desk.plan("small.yaml", {"--html", "folder"}).status == 7);
  CHECK(fs::is_directory(desk.path() / "folder"));
  desk.write("target.svg", "<svg class=\"old\"/>");
  fs::create_symlink("target.svg", desk.path() / "link.svg");
  CHECK(desk.plan("small.yaml", {"--svg", "link.svg"}).status == 0);
  CHECK(fs::is_symlink(desk.path() / "link.svg"));
  CHECK_FALSE(contains(desk.read("target.svg"), "old"));
  // Through a link of its own, so that a fault harms no device.
  fs::create_symlink("/dev/full", desk.path() / "full.svg");
  const Outcome full = desk.plan("small.yaml", {"--svg", "full.svg"});
  CHECK(full.status == 7);
  CHECK(contains(full.err, "error: cannot write full.svg"));
  CHECK(fs::is_symlink(desk.path() / "full.svg"));
}

TEST_CASE("plan: a device is a known name or a readable cluster file, else the error says what is known") {
  const PlanDesk desk;
  desk.write("empty.yaml", "");
  desk.write("junk.yaml", "\x01\xff\x7f" + std::string(1000, '\xc4'));
  desk.write("big.yaml", "name: x\n" + std::string(20'000'000, '#'));
  desk.write("recipe.yaml", kSmall);
  desk.write("no-link.yaml",
             cluster_with("h100-80gb", {{"between: {bandwidth: 340e9, latency: 5e-6}\n", ""}}));
  fs::create_directory(desk.path() / "folder");
  struct Case {
    std::string device, says, hint;
  };
  const std::string known = "known are a100-40gb, a100-80gb, cpu-25gbe, h100-80gb, h200-141gb, v100-32gb";
  const std::vector<Case> cases = {
      {"h100-80g", "there is no device 'h100-80g'; did you mean h100-80gb?", known},
      {"h200", "there is no device 'h200'; did you mean h200-141gb?", known},
      {"b200x", "there is no device 'b200x'", known},
      {" ", "there is no device ' '", known},
      {std::string(5000, 'a'), "there is no device 'aaaa", known},
      {"missing.yaml", "cannot open missing.yaml: No such file", "check the path"},
      {"folder", "folder is not a regular file", ""},
      {"/dev/zero", "/dev/zero is not a regular file", ""},
      {"empty.yaml", "the cluster empty.yaml has problems:", "docs/formats/cluster.md"},
      {"junk.yaml", "the cluster junk.yaml has problems:\n  line 1, column 1", "docs/formats/cluster.md"},
      {"big.yaml", "big.yaml has 20000008 bytes; at most 10000000 are read here", ""},
      {"recipe.yaml", "the cluster recipe.yaml has problems:\n  line 1: unknown key 'run'",
       "docs/formats/cluster.md"},
      {"no-link.yaml", "16 ranks do not fit on one node of 'h100-80gb' (at most 8), and it has no link",
       "give `between: {bandwidth, latency}` in the cluster file"}};
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const Outcome o = desk.plan("gpt2.yaml", {"--ranks", "16", "--device", c.device});
    CHECK(o.status == 2);
    CHECK(o.out == "");
    CHECK_MESSAGE(contains(o.err, "error: " + c.says), o.err);
    CHECK_MESSAGE(contains(o.err, c.hint), o.err);
    CHECK(o.err.size() < 1500);
  }
  for (const std::string& name : plan::cluster_names()) {
    const Outcome o =
        desk.plan("gpt2.yaml", {"--ranks", "16", "--device", name, "--set", "model.dtype=float16"});
    CHECK_MESSAGE(o.status == 0, o.err);
    CHECK(contains(o.out, "\nrates: '" + name + "', as described: "));
  }
  CHECK(desk.plan("small.yaml", {"--device", "H100-80GB"}).status == 0);
  const Outcome no_rate = desk.plan("gpt2.yaml", {"--device", "v100-32gb"});
  CHECK(no_rate.status == 0);  // memory is known all the same
  CHECK(contains(no_rate.out, "memory of a rank"));
  CHECK(contains(no_rate.out,
                 "no times: 'v100-32gb' has no rate of products of bfloat16; choose another "
                 "model.dtype, or another device"));
  CHECK(desk.plan("gpt2.yaml", {"--device", "v100-32gb", "--search"}).status == 2);
}

TEST_CASE("plan: estimates are those of the conventions that are named, or the usual ones") {
  const PlanDesk desk;
  const Outcome usual = desk.plan("small.yaml", {"--estimates"});
  CHECK(usual.status == 0);
  for (const char* const tool :
       {"ZeRO paper", "DeepSpeed", "Megatron-LM, fp32 gradients", "LLaMA-Factory, full"})
    CHECK(contains(usual.out, tool));
  const Outcome two = desk.plan("small.yaml", {"--estimates", "megatron-bf16,llama-factory-qlora-4"});
  CHECK(two.status == 0);
  CHECK(contains(two.out, "Megatron-LM"));
  CHECK(contains(two.out, "QLoRA"));
  CHECK_FALSE(contains(two.out, "DeepSpeed"));
  const Outcome wrong = desk.plan("small.yaml", {"--estimates", "megatron-bf61"});
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "megatron-bf16"));
}

TEST_CASE("plan: this machine's calibration is used where it is there, and says when it was measured") {
  const PlanDesk desk;
  // The host's name.
  const fs::path file = desk.path() / "xdg/zerotrain" / fs::path(plan::calibration_path()).filename();
  const Outcome without = desk.plan("small.yaml");
  CHECK(without.status == 0);
  CHECK(contains(without.out,
                 "\nno times: name a --device, or measure this machine: zerotrain doctor --calibrate\n"));
  const Outcome search = desk.plan("small.yaml", {"--search"});
  CHECK(search.status == 2);
  CHECK(contains(search.err, "a search compares times"));
  CHECK(contains(search.err, "hint: name a --device, or measure this machine"));

  const auto calibrated = [&](const std::string& when) {
    std::string text = cluster_with("cpu-25gbe", {{"between: {bandwidth: 2.8e9, latency: 30e-6}\n", ""}});
    desk.write(fs::relative(file, desk.path()), "calibrated: " + when + "\n" + text);
  };
  const std::time_t then = std::time(nullptr) - 10 * 86400 - 3600;
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&then));
  calibrated(text);
  const Outcome with = desk.plan("small.yaml", {"--html", "p.html"});
  CHECK(with.status == 0);
  CHECK(contains(with.out, std::string("\nrates: 'cpu-25gbe', measured ") + text + ", 10 days old\n"));
  CHECK(contains(with.out, "\nfits: "));
  CHECK(contains(desk.read("p.html"), std::string("measured ") + text + ", 10 days old."));
  CHECK(desk.json("small.yaml", {})["time"]["calibrated"] == text);
  CHECK(desk.plan("small.yaml", {"--search"}).status == 0);
  // A named device is taken in its place.
  CHECK(
      contains(desk.plan("small.yaml", {"--device", "h100-80gb"}).out, "\nrates: 'h100-80gb', as described"));

  const Outcome more = desk.plan("small.yaml", {"--ranks", "2"});
  CHECK(more.status == 0);
  CHECK(contains(more.out, "\nno times: 2 ranks do not fit on one node of 'cpu-25gbe' (at most 1)"));
  CHECK(contains(more.out, "mpirun -n 2 zerotrain doctor --calibrate; or name a --device\n"));
  CHECK(contains(desk.json("small.yaml", {"--ranks", "2"})["no_time"].get<std::string>(), "2 ranks"));
  for (const std::string broken : {"yesterday", "[", "2026-11-30T04:00:00Z\nnodes: 3", "\"\xff\""}) {
    CAPTURE(broken);
    calibrated(broken);
    const Outcome o = desk.plan("small.yaml");
    CHECK(o.status == 0);
    CHECK_MESSAGE(contains(o.out, "\nno times: the cluster " + file.string() + " has problems:"), o.out);
    CHECK(contains(o.out, "; measure again: zerotrain doctor --calibrate; or name a --device\n"));
  }
}

TEST_CASE(
    "plan: hostile clusters, ranks and models get an answer or an error in 5 s, and no number is infinite") {
  const PlanDesk desk;
  using Swaps = std::vector<std::pair<std::string, std::string>>;
  const std::vector<Swaps> clusters = {
      {},
      {{"ranks: 8", "ranks: 1000000"}},
      {{"ranks: 8", "ranks: 0"}},
      {{"ranks: 8", "ranks: 99999999999999999999"}},
      {{"bandwidth: 340e9", "bandwidth: 0"}},
      {{"bandwidth: 340e9", "bandwidth: -1"}},
      {{"bandwidth: 340e9", "bandwidth: 1"}, {"bandwidth: 360e9", "bandwidth: 1"}},
      {{"bandwidth: 340e9", "bandwidth: 1e-300"}, {"660e12", "1e-300"}},
      {{"340e9", "1e300"}, {"660e12", "1e300"}},
      {{"340e9", "nan"}, {"660e12", ".nan"}, {"3.0e12", ".inf"}, {"4e-6", "-.inf"}},
      {{"660e12", "1"}, {"550e12", "1"}, {"430e12", "1"}, {"45e12", "1"}, {"3.0e12", "1"}, {"0.95", "0.01"}},
      {{"660e12", "1152921504606846976"}, {"3.0e12", "1152921504606846976"}, {"989e12", "1"}, {"4e-6", "0"}},
      {{"5e-6", "3600"}, {"3e-6", "3600"}, {"4e-6", "3600"}, {"2e-3", "3600"}},
      {{"0.95", "1e-300"}},
      {{"85000000000", "1"}},
      {{"85000000000", "1152921504606846976"}, {"1500000000", "1152921504606846976"}},
      {{"name: h100-80gb", "name: \"\\e[31m\\n\\0\""}}};
  struct Run {
    std::string recipe, ranks, rows;
  };
  const std::vector<Run> runs = {{"small.yaml", "8", "16"},
                                 {"70b.yaml", "64", "256"},
                                 {"huge.yaml", "1", "1"},
                                 {"huge.yaml", "1000000", "1000000"}};
  // Not finite, or a 64-bit number that has gone round.
  const std::regex never(R"((^|[^a-z])(nan|inf|infinity)([^a-z]|$)|-\d{12})", std::regex::icase);
  int answered = 0, refused = 0;
  for (std::size_t i = 0; i < clusters.size(); ++i)
    for (const auto& [recipe, ranks, rows] : runs) {
      CAPTURE(i);
      CAPTURE(recipe);
      CAPTURE(ranks);
      desk.write("c.yaml", cluster_with("h100-80gb", clusters[i]));
      for (const Words& form :
           {Words{"--estimates", "--html", "p.html", "--svg", "p.svg"}, Words{"--json"}}) {
        Words words = {"--ranks", ranks, "--device", "c.yaml", "--set", "train.global_batch_size=" + rows};
        words.insert(words.end(), form.begin(), form.end());
        const double before = children_seconds();
        const Outcome o = desk.plan(recipe, words);
        CHECK(children_seconds() - before < 5 * kSlowdown);
        CHECK_MESSAGE((o.status == 0 || o.status == 2 || o.status == 7), o.err);
        (o.status == 2 ? refused : answered)++;
        if (o.status == 2) {
          CHECK(o.out == "");
          CHECK_MESSAGE(contains(o.err, "the cluster c.yaml has problems:\n  "), o.err);
          continue;
        }
        CHECK_MESSAGE(!std::regex_search(o.out, never), o.out);
        if (form[0] != "--json") {
          CHECK_FALSE(std::regex_search(desk.read("p.html"), never));
          CHECK_NOTHROW(parse_xml(desk.read("p.svg")));
        } else {
          check_only_allowed_nulls(Json::parse(o.out));
        }
      }
    }
  CHECK(answered > 30);
  CHECK(refused > 30);
  for (const std::string ranks : {"0", "-1", "1000001", "99999999999999999999", "many", "1.5"}) {
    const Outcome o = desk.plan("small.yaml", {"--ranks", ranks});
    CHECK(o.status == 2);
    CHECK_MESSAGE(contains(o.err, "--ranks: Value " + ranks + " not in range 1 to 1000000"), o.err);
  }
}

TEST_CASE("plan: 1,024 ranks x 80 blocks x 16 micro-batches take under 2 s of processor time") {
  const PlanDesk desk;
  const double before = children_seconds();
  const Json json = desk.json(
      "70b.yaml", {"--ranks", "1024", "--device", "h100-80gb", "--set", "train.global_batch_size=16384",
                   "--set", "train.micro_batch_size=1", "--set", "memory.recompute=full"});
  CHECK(children_seconds() - before < 2 * kSlowdown);
  CHECK(json["fits"] == true);
  CHECK(json["time"]["nodes"] == 128);
  CHECK(json["train_ops"] > 80 * 16 * 4);
}

TEST_CASE("plan: 80 blocks x 400 micro-batches take under 5 s of processor time, and too many are refused") {
  const PlanDesk desk;
  const double before = children_seconds();
  const Json json = desk.json(
      "70b.yaml", {"--ranks", "64", "--device", "h100-80gb", "--set", "train.global_batch_size=25600",
                   "--set", "train.micro_batch_size=1", "--set", "memory.recompute=full"});
  CHECK(children_seconds() - before < 5 * kSlowdown);
  CHECK(json["fits"] == true);
  const double start = children_seconds();
  const Outcome deep =
      desk.plan("small.yaml", {"--device", "h100-80gb", "--set", "model.config.num_hidden_layers=4096",
                               "--set", "train.global_batch_size=2"});
  CHECK(children_seconds() - start < 5 * kSlowdown);
  CHECK_MESSAGE(deep.status == 0, deep.err);
  const Outcome more = desk.plan("70b.yaml", {"--ranks", "64", "--set", "train.global_batch_size=128000"});
  CHECK(more.status == 2);
  CHECK(contains(more.err, "is more than 65536; make fewer and larger micro-batches"));
}

TEST_CASE("plan: the same command says the same, byte for byte") {
  const PlanDesk desk;
  for (const Words& form : {Words{"--search", "--estimates"}, Words{"--search", "--json"}}) {
    Words words = {"--ranks", "64", "--device", "a100-80gb", "--html", "1.html", "--svg", "1.svg"};
    words.insert(words.end(), form.begin(), form.end());
    const Outcome first = desk.plan("gpt2.yaml", words);
    words[5] = "2.html";
    words[7] = "2.svg";
    const Outcome second = desk.plan("gpt2.yaml", words);
    CHECK(first.status == 0);
    CHECK(first.out == second.out);
    CHECK(desk.read("1.html") == desk.read("2.html"));
    CHECK(desk.read("1.svg") == desk.read("2.svg"));
  }
}

TEST_CASE("plan: words count tokens for waits of layers only, whose computing grows as what they hide") {
  const PlanDesk desk;
  const Outcome narrow = desk.plan("gpt2.yaml", {"--ranks", "64", "--device", "a100-40gb"});
  CHECK(contains(line_with(narrow.out, "`forward b2 m1` waits"),
                 "tokens in a micro-batch of each rank would hide them, there are 1,024"));
  CHECK(contains(narrow.out, "what helps most, one change at a time\n"));
  const Outcome wide =
      desk.plan("gpt2.yaml", {"--ranks", "64", "--device", "a100-40gb", "--set", "train.micro_batch_size=4"});
  const std::string embedding = line_with(wide.out, "`forward b0 m0` waits");
  REQUIRE_MESSAGE(embedding != "", wide.out);
  CHECK_FALSE(contains(embedding, "would hide"));
  const std::string tiny = desk.plan("small.yaml", {"--device", "h100-80gb"}).out;
  CHECK(contains(tiny, "\n  so short a step is mostly batches, lanes, all the rest, "));
  CHECK_FALSE(contains(tiny, "communication lane"));
}

TEST_CASE("plan: every key and kernel of a cluster file is documented, and no other") {
  const std::string text = docs("cluster.md");
  const std::set<std::string> documented = first_column(text, "## Keys", "## From the file to seconds");
  plan::Cluster all = plan::open_cluster("h100-80gb");
  all.calibrated = "2026-11-30T04:00:00Z";
  all.about = "x";
  std::set<std::string> keys = matches(plan::cluster_text(all), "(?:^|[^A-Za-z0-9_])([a-z][a-z_0-9]*)\"?:");
  for (const auto& [kernel, name] : words(plan::Kernel{})) keys.insert(name);
  for (const std::string& key : keys) CHECK_MESSAGE(documented.contains(key), "not documented: ", key);
  for (const std::string& key : documented) CHECK_MESSAGE(keys.contains(key), "not a key: ", key);
  CHECK(keys.size() > 30);
  // The smallest file of the document is read.
  const std::size_t begin = text.find("```yaml\n") + 8;
  const plan::Cluster least =
      plan::parse_cluster(text.substr(begin, text.find("```", begin) - begin), "example");
  CHECK(least.name == "two-boxes");
  CHECK(least.node_for(2).ranks == 1);
}

}  // namespace zt::test
