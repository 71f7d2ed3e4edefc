// The program itself on the emulated GPU: the module is opened, ranks are threads or processes with a GPU each, runs stop on one
// kind of device and go on on the other. A program that ends with findings of the emulator has status 97.
#include <doctest/doctest.h>

#include <array>

#include "exec/trace.h"
#include "fault/fault_desk.h"

namespace zt::test {
namespace {

const std::string kRecipe = R"(run: {output_dir: out, seed: 7, device: cuda}
model:
  config: {model_type: llama, hidden_size: 64, intermediate_size: 64, num_hidden_layers: 2,
           num_attention_heads: 1, num_key_value_heads: 1, max_position_embeddings: 32}
  dropout: 0.1
tokenizer: {type: byte}
data:
  sequence_length: 32
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {max_steps: 4, micro_batch_size: 1, global_batch_size: 4, eval_every: 4}
optimizer: {learning_rate: 1e-3}
lr_schedule: {name: constant, warmup_steps: 2}
checkpoint: {every_steps: 2}
)";

struct GpuDesk : FaultDesk {
  GpuDesk() {
    write("recipe.yaml", kRecipe);
    write("text.txt", lines_of_text(20));
  }
};

void check_close(const FaultDesk& desk, const std::string& a, const std::string& b, const char* field,
                 double bound) {
  const auto left = desk.field(a, field), right = desk.field(b, field);
  REQUIRE(left.size() == right.size());
  REQUIRE_FALSE(left.empty());
  for (std::size_t i = 0; i < left.size(); ++i)
    CHECK(left[i].get<double>() == doctest::Approx(right[i].get<double>()).epsilon(bound));
}

// Lanes are queues, and what waits for another lane's op begins after it.
void check_trace(const FaultDesk& desk, const std::string& folder) {
  const exec::PlayedStep played = exec::read_trace(desk.read(folder + "/trace.json"), folder);
  std::array<double, schedule::kLanes> until{};
  int kept_waiting = 0;
  for (std::size_t i = 0; i < played.list.ops.size(); ++i) {
    const plan::Span& span = played.time.spans[i];
    double& lane = until[std::size_t(played.list.ops[i].lane)];
    CHECK(span.start >= lane - 1e-6);
    CHECK(span.end >= span.start);
    lane = span.end;
    if (span.blocker < 0) continue;
    ++kept_waiting;
    CHECK(span.start >= played.time.spans[std::size_t(span.blocker)].end - 1e-6);
  }
  CHECK(until[0] > 0);
  if (played.ranks == 1) return;
  CHECK(kept_waiting > 0);
  for (const auto& seconds : desk.field(folder, "exposed_comm_seconds")) CHECK(seconds.get<double>() > 0);
}

}  // namespace

TEST_CASE("a run on GPUs is the run on processors, for threads and processes as ranks") {
  const GpuDesk desk;
  desk.good(kTwo, {"zero.stage=3", "run.device=cpu", "run.output_dir=cpu"});
  for (const Way& way : {kAlone, kTwo, kTwoLaunched}) {
    CAPTURE(way.name());
    const std::string folder = cat("gpu", way.ranks, way.launched ? "mpi" : "");
    const Outcome o = desk.good(way, {"zero.stage=3", "run.output_dir=" + folder});
    CHECK(contains(o.err, "device: "));
    CHECK(nlohmann::json::parse(desk.read(folder + "/run.json"))["device"] != "cpu");
    check_close(desk, folder, "cpu", "loss", 1e-5);
    check_close(desk, folder, "cpu", "grad_norm", 1e-4);
    check_close(desk, folder, "cpu", "eval_loss", 1e-4);
    CHECK(desk.field(folder, "batch_hash") == desk.field("cpu", "batch_hash"));
    check_trace(desk, folder);
  }
}

TEST_CASE("a run goes on on another kind of device") {
  const GpuDesk desk;
  desk.good(kAlone, {"run.device=cpu", "run.output_dir=straight"});
  for (const bool first_on_gpu : {true, false}) {
    const std::string folder = first_on_gpu ? "gpu-first" : "cpu-first";
    const auto on = [](bool gpu) { return std::string(gpu ? "run.device=cuda" : "run.device=cpu"); };
    const Words half = {"train.max_steps=2", "checkpoint.export=never", "lr_schedule.warmup_steps=2"};
    Words sets = {on(first_on_gpu), "run.output_dir=" + folder};
    sets.insert(sets.end(), half.begin(), half.end());
    desk.good(kAlone, sets);
    desk.good(kTwo, {on(!first_on_gpu), "run.output_dir=" + folder});
    check_close(desk, folder, "straight", "loss", 1e-5);
    CHECK(desk.field(folder, "batch_hash") == desk.field("straight", "batch_hash"));
  }
}

TEST_CASE("half-precision training on GPUs keeps its checkpoint and its rules") {
  const GpuDesk desk;
  for (const std::string dtype : {"bfloat16", "float16"}) {
    CAPTURE(dtype);
    desk.good(kTwo,
              {"zero.stage=2", "model.dtype=" + dtype, "run.device=cpu", "run.output_dir=cpu-" + dtype});
    desk.good(kTwo, {"zero.stage=2", "model.dtype=" + dtype, "run.output_dir=gpu-" + dtype});
    check_close(desk, "gpu-" + dtype, "cpu-" + dtype, "loss", 1e-2);
  }
}

TEST_CASE(
    "a plan that a GPU has no room for is refused before anything is claimed, and the nearest that fits is "
    "said") {
  const GpuDesk desk;
  const Words much = {"train.micro_batch_size=256", "train.global_batch_size=512"};
  const Outcome o = desk.train({2, false, {"ZEROTRAIN_EMULATOR_MEMORY_MIB=96"}}, much);
  CHECK(o.status == 7);
  CHECK(contains(o.err, "not enough memory: the plan needs "));
  CHECK(contains(o.err, " are free on this rank's GPU"));
  CHECK(contains(o.err, "--set train.micro_batch_size="));
  // What is planned is what the rank holds: the program compares the two in its metrics.
  desk.good(kAlone, {});
  CHECK(contains(desk.read("out/plan.txt"), "workspace of the kernels"));
  CHECK(desk.field("out", "planned_bytes") == desk.field("out", "peak_bytes"));
}

TEST_CASE("a model on a GPU writes and is judged as on a processor") {
  const GpuDesk desk;
  desk.good(kAlone, {"run.device=cpu", "run.output_dir=model"});
  const auto said = [&](const std::string& device) {
    const Outcome o = desk.run({"generate", "--model", "model/export", "--prompt", "line", "--greedy",
                                "--max-tokens", "12", "--device", device});
    CHECK(o.status == 0);
    return o.out;
  };
  const std::string text = said("cpu");
  CHECK(text.size() > 4);
  CHECK(said("cuda") == text);
  CHECK(said("auto") == text);
  const auto loss = [&](const std::string& device) {
    const Outcome o = desk.run(
        {"eval", "--model", "model/export", "--recipe", "recipe.yaml", "--set", "run.device=" + device});
    REQUIRE(o.status == 0);
    return nlohmann::json::parse(o.out)["eval_loss"].get<double>();
  };
  CHECK(loss("cuda") == doctest::Approx(loss("cpu")).epsilon(1e-5));
}

TEST_CASE("ranks that would share a GPU are refused with their numbers and the GPU") {
  const GpuDesk desk;
  for (const Way& way : {kTwo, kTwoLaunched}) {
    const Outcome o = desk.train({way.ranks, way.launched, {"ZEROTRAIN_EMULATOR_DEVICES=1"}}, {});
    CHECK(o.status == 2);
    CHECK(contains(o.err, "ranks 0 and 1 on "));
    CHECK(contains(o.err, " would share the GPU "));
  }
  const Outcome none = desk.train({1, false, {"ZEROTRAIN_EMULATOR_DEVICES=0"}}, {});
  CHECK(none.status == 7);
  CHECK(contains(none.err, "run.device is cuda, and 1 of 1 ranks can't use a GPU: CUDA says: no CUDA"));
}

TEST_CASE("where a driver shows no GPU, device auto trains on the processor and says why") {
  const GpuDesk desk;
  const Outcome o = desk.train({1, false, {"ZEROTRAIN_EMULATOR_DEVICES=0"}}, {"run.device=auto"});
  CHECK(o.status == 0);
  CHECK(contains(o.err, "no GPU is used: CUDA says: no CUDA-capable device is detected"));
}

}  // namespace zt::test
