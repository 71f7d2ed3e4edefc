// Runs over several nodes that are joined by a network: numbers, traffic, overlap, and links that break.
#include <random>

#include "cluster/nodes.h"

namespace zt::test {
namespace {

// Large enough that a step's traffic is far above what is sent besides.
const Words kWider = {
    "model.config={model_type: llama, hidden_size: 192, intermediate_size: 512, num_hidden_layers: 6, "
    "num_attention_heads: 4, num_key_value_heads: 4, max_position_embeddings: 64}",
    "train.eval_every=0",
    "data.validation=null",
    "checkpoint.every_steps=null",
    "checkpoint.export=never",
    "logging.tensorboard=false",
    "lr_schedule.warmup_steps=0"};

Words with(Words sets, const Words& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

double median(std::vector<double> values) {
  REQUIRE_FALSE(values.empty());
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<double> numbers(const FaultDesk& desk, const std::string& folder, const std::string& field) {
  std::vector<double> all;
  for (const nlohmann::json& value : desk.field(folder, field)) all.push_back(value.get<double>());
  return all;
}

}  // namespace

TEST_CASE(
    "cluster: ranks on two and three nodes find each other, name their hosts, and train to one node's bits") {
  ZT_NEEDS_NODES();
  for (const int count : {2, 3}) {
    CAPTURE(count);
    const FaultDesk desk;
    const Nodes nodes(desk, count);
    const Outcome o = nodes.train(2, {"train.global_batch_size=12"});
    REQUIRE_MESSAGE(o.status == 0, end_of(o.err));
    CHECK(contains(o.err, "mpi (messages)"));
    for (int n = 0; n < count; ++n) CHECK(contains(o.err, Nodes::address(n)));
    CHECK_FALSE(contains(o.err, "no sign of life"));
    desk.good({2 * count, true}, {"run.output_dir=one", "train.global_batch_size=12"});
    for (const char* number : {"loss", "grad_norm", "batch_hash", "eval_loss"})
      CHECK(desk.field("out", number) == desk.field("one", number));
    CHECK((desk.weights("out") == desk.weights("one")));
    CHECK(desk.survivors() == "");
  }
}

TEST_CASE("cluster: what crosses the network is what the metrics say, within the headers' few percent") {
  ZT_NEEDS_NODES();
  const FaultDesk desk;
  const Nodes nodes(desk, 2);
  for (const int stage : {1, 3}) {
    CAPTURE(stage);
    // Two lengths of one run: what is not the steps' is in both.
    std::vector<double> sent;
    for (const int steps : {2, 12}) {
      const std::int64_t before = nodes.sent_bytes(0);
      const Outcome o =
          nodes.train(1, with(kWider, {cat("train.max_steps=", steps), cat("zero.stage=", stage),
                                       cat("run.output_dir=out", stage, "-", steps)}));
      REQUIRE_MESSAGE(o.status == 0, end_of(o.err));
      sent.push_back(double(nodes.sent_bytes(0) - before));
    }
    double told = 0;
    int step = 0;
    for (const nlohmann::json& line : json_lines(desk.read(cat("out", stage, "-12/metrics.jsonl")))) {
      if (!line.contains("loss") || ++step <= 2) continue;
      for (const auto& [kind, bytes] : line["traffic"].items()) told += bytes.get<double>();
    }
    REQUIRE(told > 50e6);
    const double ratio = (sent[1] - sent[0]) / told;
    CHECK(ratio > 0.99);
    CHECK(ratio < 1.06);
    MESSAGE("stage ", stage, ": ", told / 1e6, " MB told, ", (sent[1] - sent[0]) / 1e6, " MB on the link");
  }
  CHECK(desk.survivors() == "");
}

TEST_CASE("cluster: on a link of limited rate, communication hides behind computation") {
  ZT_NEEDS_NODES();
  const FaultDesk desk;
  const Nodes nodes(desk, 2);
  for (int n = 0; n < 2; ++n) nodes.limit(n, 1000);
  // Three times at most: other programs on the machine disturb the clock.
  double exposed[2] = {}, seconds[2] = {};
  for (int attempt = 1; attempt == 1 || (attempt <= 3 && exposed[1] >= 0.9 * exposed[0]); ++attempt) {
    for (const bool threads : {false, true}) {
      const std::string lanes = threads ? "threads" : "inline", out = cat(lanes, attempt);
      const Outcome o = nodes.train(
          1, with(kWider, {"train.max_steps=12", "train.micro_batch_size=64", "train.global_batch_size=256",
                           "comm.lanes=" + lanes, "run.output_dir=" + out}));
      REQUIRE_MESSAGE(o.status == 0, end_of(o.err));
      exposed[threads] = median(numbers(desk, out, "exposed_comm_seconds"));
      seconds[threads] = median(numbers(desk, out, "step_seconds"));
    }
    MESSAGE("inline: ", seconds[0], " s a step, ", exposed[0], " s exposed; threads: ", seconds[1], " s, ",
            exposed[1], " s exposed");
  }
  CHECK(exposed[1] < 0.9 * exposed[0]);
  CHECK(desk.field("threads1", "loss") == desk.field("inline1", "loss"));
  CHECK(desk.survivors() == "");
}

TEST_CASE(
    "cluster: a link that breaks at a random step ends the job on both sides, and says which ranks are "
    "gone") {
  ZT_NEEDS_NODES();
  std::mt19937 random(41);
  for (int i = 0; i < 3; ++i) {
    const auto step = std::int64_t(3 + random() % 20);
    const int cut = i == 2 ? 0 : 1;
    const bool own_limit = i == 0;  // the recipe's own
    CAPTURE(step);
    CAPTURE(cut);
    const FaultDesk desk;
    const Nodes nodes(desk, 2);
    const Words sets = {"train.max_steps=1000000", "train.global_batch_size=12",
                        own_limit ? "comm.silence_seconds=30" : "comm.silence_seconds=4"};
    const pid_t run = nodes.begin(2, sets);
    REQUIRE(desk.wait_for_step("out", step));
    REQUIRE(desk.wait_for_checkpoint("out"));
    nodes.cut(cut);
    const Outcome o = desk.finish(run, 60);
    const std::string left = desk.survivors(15);
    CAPTURE(end_of(o.err));
    CHECK(o.status > 0);
    CHECK(o.status != 75);
    CHECK(o.seconds < 60);
    CHECK(left == "");
    CHECK(contains(o.err, "error: ranks 2 and 3 (host 10.77.0.2) have given no sign of life for "));
    CHECK(contains(o.err, "their node or its network is gone"));
    CHECK(count(o.err, "error: ") == 1);
    MESSAGE("link of node ", cut, " cut after step ", step, ": ended after ", o.seconds, " s, status ",
            o.status);

    nodes.mend(cut);
    const std::vector<std::int64_t> steps = desk.steps("out");
    REQUIRE_FALSE(steps.empty());
    CHECK(checkpoint::Checkpoint::open(desk.path() / FaultDesk::step_folder("out", steps.back()))
              .verify()
              .empty());
    const std::string more = cat("train.max_steps=", std::max<std::int64_t>(desk.last_step("out") + 3, 6));
    const Outcome on = nodes.train(2, {more, "train.global_batch_size=12"});
    CHECK_MESSAGE(on.status == 0, end_of(on.err));
    CHECK(contains(on.err, "going on after step "));
    desk.good({4, true}, {more, "train.global_batch_size=12", "run.output_dir=straight"});
    CHECK(desk.field("out", "loss") == desk.field("straight", "loss"));
    CHECK((desk.weights("out") == desk.weights("straight")));
  }
}

TEST_CASE("cluster: a rank of another node that is stopped is named with its host") {
  ZT_NEEDS_NODES();
  const FaultDesk desk;
  const Nodes nodes(desk, 2);
  const pid_t run =
      nodes.begin(2, {"train.max_steps=1000000", "train.global_batch_size=12", "comm.silence_seconds=4"});
  REQUIRE(desk.wait_for_step("out", 4));
  REQUIRE(desk.wait_for_checkpoint("out"));
  const pid_t process = nodes.process_of(3);
  REQUIRE(process > 0);
  ::kill(process, SIGSTOP);
  const Outcome o = desk.finish(run, 60);
  CAPTURE(end_of(o.err));
  CHECK(o.status == 6);
  CHECK(count(o.err, "error: ") == 1);
  CHECK(contains(
      o.err, cat("error: rank 3 (host 10.77.0.2, process ", process, ") has given no sign of life for ")));
  CHECK(desk.survivors(15) == "");
  MESSAGE("ended after ", o.seconds, " s");
}

}  // namespace zt::test
