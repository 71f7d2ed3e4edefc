// What goes wrong on several ranks is said once, ends all of them, and is the job's status.
#include "fault/fault_desk.h"

namespace zt::test {
namespace {

const Way kThree{3, false}, kThreeLaunched{3, true};

}  // namespace

TEST_CASE("fault: what is wrong for all ranks is said once, with the status it has alone") {
  const FaultDesk desk;
  const std::string huge =
      "model.config={model_type: llama, hidden_size: 8192, intermediate_size: 28672, num_hidden_layers: 80, "
      "num_attention_heads: 64, num_key_value_heads: 8, max_position_embeddings: 4096}";
  struct Case {
    Words sets;
    int status;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"train.micro_bach_size=2"}, 2, "unknown key 'train.micro_bach_size'; did you mean micro_batch_size?"},
      {{"train.global_batch_size=7"}, 2, "is 7; nearest: 6 or 9"},
      {{"data.train[0].path=gone.txt"}, 3, "gone.txt"},
      {{"model.base=gone", "model.config=null", "tokenizer=null"}, 4, "gone"},
      {{huge}, 7, "not enough memory: the plan needs "},
      {{"run.output_dir=text.txt/out"}, 7, "text.txt/out"},
      {{"data.sequence_length=64"}, 2, "model.config.max_position_embeddings = 32, is 64"},
      {{"optimizer.learning_rate=10", "optimizer.weight_decay=1e12", "train.max_steps=100"},
       5,
       "is not finite; 5 steps in a row"},
  };
  for (const Case& c : cases) {
    for (const Way& way : {kThree, kThreeLaunched}) {
      CAPTURE(c.says);
      CAPTURE(way.name());
      const Outcome o = desk.train(way, c.sets);
      CHECK_MESSAGE(o.status == c.status, end_of(o.err));
      CHECK(o.out == "");
      CHECK_MESSAGE(count(o.err, "error: ") == 1, end_of(o.err));
      CHECK_MESSAGE(count(o.err, c.says) == 1, end_of(o.err));
      CHECK(o.seconds < 20);
    }
  }
}

TEST_CASE("fault: a run folder in use is refused once, and the run in it is not disturbed") {
  const FaultDesk desk;
  const pid_t run = desk.begin(kTwo, kEndless, {}, "background");
  REQUIRE(desk.wait_for_step("out", 1));
  for (const Way& way : {kThree, kThreeLaunched}) {
    const Outcome o = desk.train(way, {});
    CHECK(o.status == 2);
    CHECK(count(o.err, "run folder out is in use by another process") == 1);
  }
  ::kill(run, SIGTERM);
  CHECK(desk.finish(run, 60, "background").status == 75);
}

TEST_CASE(
    "fault: a rank that is killed ends the job within seconds, and the run goes on from its checkpoint") {
  for (const int killed : {0, 2}) {
    CAPTURE(killed);
    const FaultDesk desk;
    const pid_t run = desk.begin(kThreeLaunched, kEndless);
    REQUIRE(desk.wait_for(FaultDesk::step_folder("out", 2) + "/manifest.json", ""));
    ::kill(FaultDesk::processes(kThreeLaunched, run).at(std::size_t(killed)), SIGKILL);
    const Outcome o = desk.finish(run, 60);
    CHECK(o.status > 0);
    CHECK(o.seconds < 20);
    CHECK_FALSE(desk.has("out/export"));
    const Outcome on = desk.good(kThreeLaunched, {cat("train.max_steps=", desk.last_step("out") + 2)});
    CHECK(contains(on.err, "going on after step "));
    CHECK_FALSE(desk.has_partial("out"));
  }
}

TEST_CASE("fault: ranks that were started with different recipes end before the first step, both named") {
  const FaultDesk desk;
  desk.write("other.txt", FaultDesk::lines_of_text(61));
  const auto job = [&desk](const Words& other, const Words& environment = {}) {
    Words command = {Desk::launcher(),
                     "--mca",
                     "btl_vader_backing_directory",
                     desk.path().string(),
                     "-n",
                     "1",
                     Desk::binary(),
                     "--recipe",
                     "recipe.yaml",
                     ":",
                     "-n",
                     "1"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {Desk::binary(), "--recipe", "recipe.yaml"});
    command.insert(command.end(), other.begin(), other.end());
    return desk.finish(desk.start_command(command), 60);
  };
  // Some change the list of operations, some only numbers.
  for (const Words& other :
       {Words{"--set", "zero.prefetch=0"}, Words{"--set", "optimizer.learning_rate=2e-3"},
        Words{"--set", "run.output_dir=out-2"}, Words{"--resume", "never"}}) {
    CAPTURE(other[1]);
    const Outcome o = job(other);
    CHECK(o.status == 2);
    CHECK_MESSAGE(
        contains(o.err, "ranks 0 and 1 were started with different recipes or options (fingerprints "),
        end_of(o.err));
    CHECK(count(o.err, "error: ") == 1);
    CHECK(contains(o.err, "start every rank with the same recipe"));
    CHECK(o.seconds < 20);
    CHECK_FALSE(desk.has("out"));
  }
  const Outcome missing = job({"--set", "nonsense=1"});
  CHECK(missing.status == 2);
  CHECK(contains(missing.err, "error: rank 1: recipe has problems:"));

  // The same words mean another file in another folder, as on another node.
  desk.write("node2/recipe.yaml", kTinyRecipe);
  desk.write("node2/text.txt", FaultDesk::lines_of_text(61));
  const Outcome texts = job({}, {"--wdir", (desk.path() / "node2").string()});
  CHECK(texts.status == 3);
  CHECK(count(texts.err, "error: ") == 1);
  CHECK_MESSAGE(contains(texts.err, "ranks 0 and 1 have opened different models, tokenizers or data"),
                end_of(texts.err));
  CHECK_FALSE(desk.has("out"));
}

}  // namespace zt::test
