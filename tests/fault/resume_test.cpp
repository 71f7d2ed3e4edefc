// The words of --resume, what a run may change when it goes on, and what stays in its folder.
#include <algorithm>

#include "fault/fault_desk.h"

namespace zt::test {

TEST_CASE("fault: --resume must, never and a path do what they say or fail, and say what there is") {
  const FaultDesk desk;
  for (const Way& way : {kAlone, kTwoLaunched}) {
    const Outcome none = desk.train(way, {}, {"--resume", "must"});
    CHECK(none.status == 2);
    CHECK(count(none.err, "error: ") == 1);
    CHECK(contains(none.err, "--resume must: there is no checkpoint in out/checkpoints"));
  }
  desk.good(kAlone, {"train.max_steps=6"}, {"--resume", "never"});
  const std::string metrics = desk.read("out/metrics.jsonl");
  const Outcome never = desk.train(kAlone, {}, {"--resume", "never"});
  CHECK(never.status == 2);
  CHECK(contains(never.err, "run folder out already holds a run"));

  for (const std::string wrong : {"out/checkpoints/step-00000007", "out/checkpoints", "out"}) {
    CAPTURE(wrong);
    const Outcome o = desk.train(kTwo, {}, {"--resume", wrong});
    CHECK(o.status == 4);
    CHECK(count(o.err, "error: ") == 1);
    CHECK(contains(o.err, wrong));
    CHECK_MESSAGE(contains(o.err, "holds step-00000002, step-00000004, step-00000006"), o.err);
  }
  const Outcome nowhere = desk.train(kAlone, {}, {"--resume", "mist"});
  CHECK(nowhere.status == 4);
  CHECK(contains(nowhere.err, "mist does not exist"));
  CHECK(desk.read("out/metrics.jsonl") == metrics);

  CHECK(
      contains(desk.good(kAlone, {"train.max_steps=8"}, {"--resume", "must"}).err, "going on after step 6"));
  for (const std::string end : {"", "/"}) {
    const std::string newest = FaultDesk::step_folder("out", end.empty() ? 8 : 10) + end;
    const Words steps = {cat("train.max_steps=", end.empty() ? 10 : 12)};
    CHECK(contains(desk.good(kAlone, steps, {"--resume", newest}).err, "going on after step "));
  }
}

TEST_CASE("fault: a checkpoint of one run begins another in a new folder; neither touches the other") {
  const FaultDesk desk;
  desk.good(kTwo, {"train.max_steps=8"});
  const std::string from = FaultDesk::step_folder("out", 4), before = desk.read("out/metrics.jsonl");
  const Outcome back = desk.train(kTwo, {}, {"--resume", from});
  CHECK(back.status == 2);
  CHECK(contains(back.err, "holds checkpoints after step 4 (6, 8)"));
  CHECK(contains(back.err, "run.output_dir=NEW"));

  desk.good(kTwo, {"train.max_steps=8", "run.output_dir=branch"}, {"--resume", from});
  CHECK(desk.read("out/metrics.jsonl") == before);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{4, 6, 8});
  CHECK(desk.steps("branch") == std::vector<std::int64_t>{6, 8});
  CHECK((desk.weights("branch") == desk.weights("out")));
  const auto steps = desk.field("branch", "loss"), all = desk.field("out", "loss");
  CHECK(steps == std::vector<nlohmann::json>(all.begin() + 4, all.end()));
  // It goes on from its own checkpoints, and a folder that holds a run takes no other's.
  CHECK(contains(desk.good(kTwo, {"train.max_steps=10", "run.output_dir=branch"}).err,
                 "going on after step 8"));
  const Outcome mixed = desk.train(kTwo, {"run.output_dir=branch"}, {"--resume", from});
  CHECK(mixed.status == 2);
  CHECK(contains(mixed.err, "run folder branch already holds a run"));
}

TEST_CASE(
    "fault: another seed, text, length or tokenizer is refused with all differences; nothing is changed") {
  const FaultDesk desk;
  desk.good(kAlone, {"train.max_steps=4"});
  desk.write("other.txt", FaultDesk::lines_of_text(61));
  const std::string metrics = desk.read("out/metrics.jsonl"), recipe = desk.read("out/recipe.yaml");
  struct Case {
    Words sets;
    Words says;
  };
  const std::string rows = "the training rows are others", seed = "run.seed was 7, is 8";
  const std::vector<Case> cases = {
      {{"run.seed=8"}, {seed}},
      {{"data.train[0].path=other.txt"}, {rows}},
      {{"data.sequence_length=8"}, {rows}},
      {{"tokenizer.type=char", "model.config.vocab_size=264"}, {rows, "the tokenizer is another one"}},
      {{"run.seed=8", "data.sequence_length=8"}, {seed, rows}},
  };
  for (const Case& c : cases) {
    for (const Way& way : {kAlone, kTwo}) {
      CAPTURE(c.sets[0]);
      const Outcome o = desk.train(way, c.sets);
      CHECK(o.status == 2);
      CHECK_MESSAGE(contains(o.err, "the checkpoint of step 4 belongs to other data:"), o.err);
      for (const std::string& text : c.says) CHECK_MESSAGE(contains(o.err, text), o.err);
      CHECK(count(o.err, "\n  ") == int(c.says.size()) + 1);  // these, and the hint
    }
  }
  const Outcome wide = desk.train(kTwo, {"model.config.hidden_size=32"});
  CHECK(wide.status == 4);
  CHECK(contains(wide.err, "model.norm.weight has shape [24], needed is [32]"));
  const Outcome frozen = desk.train(kTwo, {"train.freeze=[model.embed_tokens.*]"});
  CHECK(frozen.status == 4);
  CHECK(contains(frozen.err,
                 "model.embed_tokens.weight has a first_moment that nothing uses: is it frozen now?"));
  CHECK(desk.read("out/metrics.jsonl") == metrics);
  CHECK(desk.read("out/recipe.yaml") == recipe);
}

TEST_CASE("fault: learning rate, ranks, stage, batches, dtype and recomputation may change on the way") {
  const FaultDesk desk;
  int steps = 2;
  desk.good(kAlone, {"train.max_steps=2", "lr_schedule.warmup_steps=1"});
  for (const Words& change :
       {Words{"optimizer.learning_rate=2e-3"}, Words{"zero.stage=1"}, Words{"train.micro_batch_size=3"},
        Words{"train.global_batch_size=12"}, Words{"model.dtype=bfloat16"}, Words{"memory.recompute=full"},
        Words{"optimizer.betas=[0.8, 0.9]"}, Words{"model.dropout=0"}, Words{"lr_schedule.name=cosine"}}) {
    CAPTURE(change[0]);
    Words sets = change;
    sets.push_back(cat("train.max_steps=", steps += 2));
    sets.push_back("lr_schedule.warmup_steps=1");
    const Outcome o = desk.good(steps % 4 == 0 ? kTwo : kAlone, sets);
    CHECK(contains(o.err, cat("going on after step ", steps - 2)));
  }
  const auto lines = desk.field("out", "epoch");
  REQUIRE(int(lines.size()) == steps);
  CHECK(std::is_sorted(lines.begin(), lines.end()));
  CHECK(desk.field("out", "learning_rate")[2] == 2e-3);
}

TEST_CASE("fault: a finished run that is started again says so and changes nothing") {
  const FaultDesk desk;
  desk.good(kTwo, {"train.max_steps=4"});
  const auto everything = [&desk] {
    std::map<std::string, std::pair<std::string, fs::file_time_type>> all;
    for (const auto& entry : fs::recursive_directory_iterator(desk.path() / "out"))
      if (entry.is_regular_file() && entry.path().filename() != ".lock")  // names whoever comes
        all[entry.path()] = {read_file(entry.path()), fs::last_write_time(entry.path())};
    return all;
  };
  const auto before = everything();
  CHECK(before.size() > 10);
  for (const Way& way : {kAlone, kTwo, kTwoLaunched}) {
    for (const char* steps : {"4", "3"}) {
      const Outcome o = desk.good(way, {cat("train.max_steps=", steps), "lr_schedule.warmup_steps=1"});
      CHECK(count(o.err, cat("the run in out is complete: step 4 of ", steps)) == 1);
      CHECK((everything() == before));
    }
  }
  // An export that was lost, or is of an earlier end, is made again.
  const std::string weights = desk.weights("out");
  fs::remove_all(desk.path() / "out/export");
  desk.good(kTwo, {"train.max_steps=4"});
  CHECK((desk.weights("out") == weights));
  fs::copy(desk.path() / "out/export", desk.path() / "earlier", fs::copy_options::recursive);
  desk.good(kTwo, {"train.max_steps=6"});
  const std::string later = desk.weights("out");
  CHECK((later != weights));
  fs::remove_all(desk.path() / "out/export");
  fs::rename(desk.path() / "earlier", desk.path() / "out/export");
  fs::last_write_time(desk.path() / "out/export/config.json",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  desk.good(kTwo, {"train.max_steps=6"});
  CHECK((desk.weights("out") == later));
}

TEST_CASE(
    "fault: a run that was killed before its first checkpoint starts over and keeps what it had measured") {
  const FaultDesk desk;
  const auto sets = [](const std::string& steps, const std::string& folder) {
    return Words{"checkpoint.every_steps=1000000", "run.output_dir=" + folder, "train.max_steps=" + steps};
  };
  std::vector<std::string> kept;
  for (const Way& way : {kAlone, kTwo}) {
    const pid_t run = desk.begin(way, sets("1000000", "out"));
    if (!kept.empty()) REQUIRE(desk.wait_for(".err1", "starting over"));
    if (!kept.empty()) REQUIRE(desk.wait_for("out/metrics.1.jsonl", ""));
    REQUIRE(desk.wait_for_step("out", 2));
    desk.kill_all(way, run);
    kept.push_back(desk.read("out/metrics.jsonl"));
  }
  const Outcome o = desk.good(kTwo, sets("5", "out"));
  CHECK(contains(o.err, "the run in out ended before its first checkpoint; starting over"));
  desk.good(kTwo, sets("5", "straight"));
  CHECK(first_difference(desk.timeless("out"), desk.timeless("straight")) == "");
  CHECK(desk.read("out/metrics.1.jsonl") == kept[0]);
  CHECK(desk.read("out/metrics.2.jsonl") == kept[1]);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{5});
}

// By number, never by name.
TEST_CASE("fault: the newest checkpoints by number stay, other folders and other runs' checkpoints too") {
  const FaultDesk desk;
  const auto to = [&desk](int steps, int keep) {
    desk.good(kAlone, {cat("train.max_steps=", steps), "checkpoint.every_steps=1000000",
                       "data.validation=null", "train.eval_every=0", cat("checkpoint.keep_last=", keep)});
  };
  to(9, 2);
  to(10, 2);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{9, 10});
  fs::create_directories(desk.path() / "out/checkpoints/step-mine");
  desk.write("out/checkpoints/notes.txt", "kept");
  to(100, 2);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{10, 100});
  to(101, 1);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{101});
  to(102, 3);
  to(103, 3);
  CHECK(desk.steps("out") == std::vector<std::int64_t>{101, 102, 103});
  CHECK(desk.has("out/checkpoints/step-mine"));
  CHECK(desk.read("out/checkpoints/notes.txt") == "kept");
}

TEST_CASE("fault: list, inspect, export, eval and generate read a checkpoint of any ranks and stage") {
  const FaultDesk desk;
  desk.good(Way{3, false}, {"train.max_steps=4"});
  const std::string last = FaultDesk::step_folder("out", 4);
  const Outcome list = desk.run({"checkpoint", "list", "out"});
  CHECK(list.status == 0);
  CHECK(contains(list.out, "3 ranks at stage 3, float32, after 24 samples"));
  CHECK(list.out.find("  2  ") < list.out.find("  4  "));
  const auto inspected = nlohmann::json::parse(desk.run({"checkpoint", "inspect", last}).out);
  CHECK(inspected["state"]["step"] == 4);
  CHECK(inspected["state"]["samples"] == 24);
  CHECK(inspected["tensors"]["model.norm.weight"]["shape"] == nlohmann::json({24}));
  CHECK(inspected["tensors"]["model.norm.weight"]["kinds"] ==
        nlohmann::json({"value", "first_moment", "second_moment"}));

  REQUIRE(desk.run({"export", "--checkpoint", last, "--to", "copy"}).status == 0);
  CHECK((desk.read("copy/model.safetensors") == desk.weights("out")));
  const Outcome eval = desk.run({"eval", "--model", last, "--recipe", "recipe.yaml"});
  REQUIRE_MESSAGE(eval.status == 0, eval.err);
  CHECK(nlohmann::json::parse(eval.out)["eval_loss"].get<double>() ==
        doctest::Approx(evaluations(desk.read("out/metrics.jsonl")).back()["eval_loss"].get<double>())
            .epsilon(1e-6));
  const Words prompt = {"--prompt", "Line 1", "--max-tokens", "8", "--greedy"};
  const auto generate = [&](const std::string& model) {
    Words words = {"generate", "--model", model};
    words.insert(words.end(), prompt.begin(), prompt.end());
    return desk.run(words).out;
  };
  CHECK(generate(last) == generate("out/export"));
  CHECK(generate(last) != "");
}

}  // namespace zt::test
