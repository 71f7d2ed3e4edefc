// Steps whose numbers are bad: spikes of the loss, and what is not finite. What the recipe's rules make of them, alone
// and on ranks, and that a resumed run does the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

// Ordinary lines, and one of letters that occur nowhere else: whoever has learnt the others does not expect it.
std::string text_with_a_shock() {
  return FaultDesk::lines_of_text(50) + std::string(15, '~') + "\n" + FaultDesk::lines_of_text(50);
}

constexpr int kSteps = 330;
const Words kLearning = {cat("train.max_steps=", kSteps),
                         "train.global_batch_size=2",
                         "train.eval_every=0",
                         "model.dropout=0",
                         "data.validation=null",
                         "optimizer.learning_rate=3e-3",
                         "train.spike_factor=3",
                         "train.max_bad_steps=100",
                         "checkpoint.every_steps=50",
                         "logging.tensorboard=false"};

Words with(Words sets, const Words& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<nlohmann::json> events_of(const FaultDesk& desk, const std::string& folder,
                                      const std::string& kind) {
  std::vector<nlohmann::json> all = json_lines(desk.read(folder + "/events.jsonl"));
  std::erase_if(all, [&](const nlohmann::json& event) { return event["event"] != kind; });
  return all;
}

}  // namespace

TEST_CASE(
    "fault: a spike is ignored, skipped, rewound past or the end, as the recipe says; the rows are named") {
  const FaultDesk desk;
  desk.write("text.txt", text_with_a_shock());
  for (const Way& way : {kAlone, kTwo}) {
    CAPTURE(way.name());
    const std::string n = cat(way.ranks);
    const auto folder = [&](const char* rule) { return cat("run.output_dir=", rule, n); };
    desk.good(way, with(kLearning, {folder("ignore")}));
    const auto hashes = desk.field("ignore" + n, "batch_hash");
    CHECK(events_of(desk, "ignore" + n, "spike").empty());
    REQUIRE(hashes.size() == kSteps);

    // Skipped: the same batches, and the bad steps change nothing.
    desk.good(way, with(kLearning, {folder("skip"), "train.on_spike=skip"}));
    CHECK(desk.field("skip" + n, "batch_hash") == hashes);
    const auto spikes = events_of(desk, "skip" + n, "spike");
    REQUIRE(!spikes.empty());
    std::vector<std::int64_t> skipped;
    const auto flags = desk.field("skip" + n, "skipped");
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (flags[i]) skipped.push_back(static_cast<std::int64_t>(i) + 1);
    REQUIRE(skipped.size() == spikes.size());
    for (std::size_t i = 0; i < spikes.size(); ++i) CHECK(spikes[i]["step"] == skipped[i]);
    CHECK(spikes[0]["rows"].size() == 2);

    // The end: status 5, with the first of these steps and its rows.
    const Outcome stop = desk.train(way, with(kLearning, {folder("stop"), "train.on_spike=stop"}));
    CHECK(stop.status == 5);
    CHECK(contains(stop.err, cat("step ", skipped[0], ": its loss of ")));
    CHECK(contains(stop.err, " times the mean of the 16 steps before; its rows are "));
    CHECK(contains(stop.err, "train.on_spike is stop"));
    CHECK(count(stop.err, "error: ") == 1);
    CHECK(events_of(desk, "stop" + n, "failed").size() == 1);

    // Rewound: every step once, and the batches of the plain run without those left out.
    const Outcome o = desk.good(way, with(kLearning, {folder("rewind"), "train.on_spike=rewind"}));
    const auto rewinds = events_of(desk, "rewind" + n, "rewind");
    REQUIRE(!rewinds.empty());
    CHECK(rewinds[0]["step"] == skipped[0]);
    CHECK(rewinds[0]["rows"] == spikes[0]["rows"]);
    CHECK(rewinds[0]["back_to"].get<std::int64_t>() < skipped[0]);
    CHECK(skipped[0] - rewinds[0]["back_to"].get<std::int64_t>() <= 20);
    CHECK(contains(
        o.err, cat("; back to the state after step ", rewinds[0]["back_to"].dump(), ", without its rows ")));
    const auto steps = desk.field("rewind" + n, "loss_scale");  // one for each step line
    CHECK(steps.size() == kSteps);
    auto expected = hashes;
    std::size_t left_out = 0;
    for (const nlohmann::json& rewind : rewinds) {
      // The n-th batch left out stood n places further on in the plain run.
      const std::size_t at = rewind["step"].get<std::size_t>() - 1 + left_out;
      REQUIRE(at < hashes.size());
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at - left_out));
      ++left_out;
    }
    auto got = desk.field("rewind" + n, "batch_hash");
    REQUIRE(got.size() >= expected.size());
    got.resize(expected.size());  // the places left free at the end have later batches
    CHECK((got == expected));
    const auto lines = json_lines(desk.read(cat("rewind", n, "/metrics.jsonl")));
    CHECK(lines.back()["peak_bytes"] == lines.back()["planned_bytes"]);
  }
}

TEST_CASE("fault: a run with rewinds that is stopped and killed on the way equals a straight one") {
  const FaultDesk desk;
  desk.write("text.txt", text_with_a_shock());
  const Words sets = with(kLearning, {"train.on_spike=rewind", "checkpoint.every_steps=20"});
  desk.good(kTwo, with(sets, {"run.output_dir=straight"}));
  const std::size_t rewinds = events_of(desk, "straight", "rewind").size();
  REQUIRE(rewinds > 0);
  for (const int step : {60, 150, 240, 300}) desk.good(kTwo, with(sets, {cat("train.max_steps=", step)}));
  desk.good(kTwo, sets);
  CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
  CHECK((desk.weights("out") == desk.weights("straight")));
}

TEST_CASE("fault: more bad steps than the budget end the run and say so") {
  const FaultDesk desk;
  desk.write("text.txt", text_with_a_shock());
  const Outcome o = desk.train(kAlone, with(kLearning, {"train.on_spike=skip", "train.max_bad_steps=0"}));
  CHECK(o.status == 5);
  CHECK(contains(o.err, "it is bad step number 1, and train.max_bad_steps is 0"));
}

namespace {

// Sets the embedding of one token of an exported model to infinity: rows that hold it are not finite, others are.
void poison_embedding(const fs::path& file, int token, std::int64_t width) {
  std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header_bytes = 0;
  io.read(reinterpret_cast<char*>(&header_bytes), 8);
  std::string header(header_bytes, ' ');
  io.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto json = nlohmann::json::parse(header);
  const auto at = json.at("model.embed_tokens.weight").at("data_offsets").at(0).get<std::uint64_t>();
  const std::vector<float> bad(static_cast<std::size_t>(width), std::numeric_limits<float>::infinity());
  io.seekp(
      static_cast<std::streamoff>(8 + header_bytes + at + static_cast<std::uint64_t>(token * width * 4)));
  io.write(reinterpret_cast<const char*>(bad.data()), width * 4);
  REQUIRE(io.good());
}

}  // namespace

TEST_CASE(
    "fault: what is not finite is skipped, rewound past or the end; the first bad tensor and the rows are "
    "named") {
  const FaultDesk desk;
  desk.good(kAlone, {"run.output_dir=seed", "train.max_steps=4", "checkpoint.every_steps=null"});
  poison_embedding(desk.path() / "seed/export/model.safetensors", '~', 24);
  desk.write("text.txt", text_with_a_shock());
  const Words sets = {"model.base=seed/export", "model.config=null",         "tokenizer=null",
                      "train.max_steps=250",    "train.global_batch_size=2", "train.eval_every=0",
                      "data.validation=null",   "checkpoint.every_steps=50", "train.hold_every=7"};
  for (const Way& way : {kAlone, kTwo}) {
    CAPTURE(way.name());
    const std::string n = cat(way.ranks);
    const Outcome skip = desk.good(way, with(sets, {"run.output_dir=skip" + n}));
    const auto skips = events_of(desk, "skip" + n, "skip");
    REQUIRE(!skips.empty());
    CHECK(contains(skips[0]["text"].get<std::string>(), " was skipped: "));
    CHECK(contains(skips[0]["text"].get<std::string>(), " is not finite; its rows are "));
    CHECK(contains(skip.err, skips[0]["text"].get<std::string>()));
    CHECK(skips[0]["loss"].is_null());

    const Outcome stop = desk.train(way, with(sets, {"run.output_dir=stop" + n, "train.on_nonfinite=stop"}));
    CHECK(stop.status == 5);
    CHECK(contains(stop.err, "train.on_nonfinite is stop"));
    CHECK(contains(stop.err, "the gradient of model.embed_tokens.weight is not finite"));
    CHECK(count(stop.err, "error: ") == 1);

    desk.good(way, with(sets, {"run.output_dir=rewind" + n, "train.on_nonfinite=rewind"}));
    const auto rewinds = events_of(desk, "rewind" + n, "rewind");
    REQUIRE(!rewinds.empty());
    CHECK(rewinds[0]["step"] == skips[0]["step"]);
    CHECK(rewinds[0]["rows"] == skips[0]["rows"]);
    for (const nlohmann::json& skipped : desk.field("rewind" + n, "skipped"))
      CHECK_FALSE(skipped.get<bool>());
    CHECK(desk.field("rewind" + n, "loss").size() == 250);
  }
}

}  // namespace zt::test
