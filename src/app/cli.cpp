// The command line: one function a command adds its options; all of them end in app/commands.h.
#include "app/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "app/commands.h"
#include "base/error.h"
#include "base/text.h"
#include "plan/cluster.h"
#include "plan/estimates.h"

namespace zt::app {
namespace {

constexpr int kMaxRanks = 65536, kMaxPlannedRanks = 1'000'000;

// What the chosen command will do once the whole command line has been read.
using Action = std::function<int()>;

CLI::Option* add_recipe(CLI::App& command, RecipeArgs& args) {
  command
      .add_option("--set", args.sets,
                  "Override a key of the recipe, as section.key=value; can be given several times")
      ->type_name("KEY=VALUE")
      ->take_all();
  return command.add_option("--recipe", args.path, "The recipe, a YAML file")->type_name("FILE");
}

void add_ranks(CLI::App& command, int& ranks, const std::string& what, int most = kMaxRanks) {
  command.add_option("--ranks", ranks, what)->type_name("N")->check(CLI::Range(1, most));
}

// More rows or tokens than anybody waits for; beyond it a number is a typing error.
constexpr std::int64_t kMaxCount = 1'000'000'000;

struct Options {
  RecipeArgs recipe;
  TrainArgs train;
  PlanArgs plan;
  bool decode = false;
  int ranks = 1;
  std::string section, tokenizer, model, to, dtype, checkpoint;
  DataArgs data;
  GenerateArgs generate;
  DoctorArgs doctor;
  ReportArgs report;
};

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& what,
                      const std::string& example) {
  CLI::App* const command = program.add_subcommand(name, what);
  command->footer("Example:\n  " + example);
  return command;
}

void add_data_command(CLI::App& program, Options& o, Action& action) {
  CLI::App* const command = add_command(program, "data",
                                        "Sum up a recipe's data to stderr, and print rows exactly as they "
                                        "will be trained, a JSON object a line. To stdout.",
                                        "zerotrain data --recipe recipes/quickstart.yaml --rows 2 --text");
  add_recipe(*command, o.data.recipe)->required();
  command->add_option("--rows", o.data.rows, "How many rows, in training order")
      ->check(CLI::Range(std::int64_t{0}, kMaxCount))
      ->capture_default_str();
  command->add_flag("--text", o.data.text,
                    "Print rows as text: what is trained is green on a terminal, in \u27e6 \u27e7 elsewhere");
  command->add_flag("--validation", o.data.validation, "Rows of the validation data");
  command
      ->add_option("--audit", o.data.audit,
                   "Print instead which rows a run had consumed when it saved this checkpoint, in order")
      ->type_name("DIR");
  command->callback([&] { action = [&] { return show_data(o.data); }; });
}

void add_plan_command(CLI::App& program, Options& o, Action& action) {
  PlanArgs& p = o.plan;
  CLI::App* const command = add_command(
      program, "plan",
      "Say what a step needs in memory, sends to other ranks and takes in time, and what would help, before "
      "anything is allocated; status 7 when it does not fit. To stdout.",
      "zerotrain plan --recipe recipes/gpt2-124m.yaml --ranks 8 --device h100-80gb");
  add_recipe(*command, p.recipe)->required();
  add_ranks(*command, p.ranks, "For so many ranks", kMaxPlannedRanks);
  command
      ->add_option("--device", p.device,
                   cat("What it runs on: ", join(plan::cluster_names(), ", "),
                       ", or a cluster file; this machine, where it is calibrated, if not given"))
      ->type_name("NAME|FILE");
  command->add_flag("--search", p.search,
                    "Try other settings and list the fastest that fit, and what does not");
  CLI::Option* const estimates =
      command
          ->add_option("--estimates", p.conventions,
                       cat("Also what the formulas of papers and other tools would say; of these only: ",
                           join(plan::estimate_names(), ", ")))
          ->type_name("[NAME,NAME]")
          ->expected(0, CLI::detail::expected_max_vector_size)
          ->delimiter(',');
  command->add_flag("--json", p.json, "Print JSON");
  command->add_option("--html", p.html, "Also write a page with tables, memory over time and lanes")
      ->type_name("FILE");
  command->add_option("--svg", p.svg, "Also write the picture of memory over time")->type_name("FILE");
  command->callback([&, estimates] {
    p.estimates = estimates->count() > 0;
    std::erase(p.conventions, "");  // where no name follows
    action = [&] { return plan(p); };
  });
}

void add_recipe_commands(CLI::App& program, Options& o, Action& action) {
  add_plan_command(program, o, action);

  CLI::App* command =
      add_command(program, "explain", "Print the list of operations of one training step. To stdout.",
                  "zerotrain explain --recipe recipes/gpt2-124m.yaml");
  add_recipe(*command, o.recipe)->required();
  add_ranks(*command, o.ranks, "For so many ranks", kMaxPlannedRanks);
  command->callback([&] { action = [&] { return explain(o.recipe, o.ranks); }; });

  command =
      add_command(program, "check", "Check a recipe; print every value and where it comes from. To stdout.",
                  "zerotrain check --recipe recipes/gpt2-124m.yaml --set train.max_steps=10");
  add_recipe(*command, o.recipe)->required();
  command->callback([&] { action = [&] { return check(o.recipe); }; });

  add_data_command(program, o, action);

  command = add_command(program, "eval",
                        "Loss of a model on a recipe's validation data, as one JSON line. To stdout.",
                        "zerotrain eval --model runs/quickstart/export --recipe recipes/quickstart.yaml");
  add_recipe(*command, o.recipe)->required();
  command->add_option("--model", o.model, "A Hugging Face model folder, or a checkpoint")
      ->type_name("DIR")
      ->required();
  command->callback([&] { action = [&] { return evaluate(o.model, o.recipe); }; });
}

void add_manual_commands(CLI::App& program, Options& o, Action& action) {
  CLI::App* command =
      add_command(program, "keys", "Print the recipe's keys with defaults and meanings. To stdout.",
                  "zerotrain keys optimizer");
  command->add_option("section", o.section, "One section only");
  command->callback([&] { action = [&] { return keys(o.section); }; });

  command = add_command(program, "schema", "Print the recipe's JSON Schema, for editors. To stdout.",
                        "zerotrain schema > zerotrain.schema.json");
  command->callback([&] { action = [] { return schema(); }; });

  command = add_command(program, "manual", "Print the manual of all keys (docs/keys.md). To stdout.",
                        "zerotrain manual > docs/keys.md");
  command->callback([&] { action = [] { return manual(); }; });
}

void add_generate_command(CLI::App& program, Options& o, Action& action) {
  GenerateArgs& g = o.generate;
  CLI::App* const command =
      add_command(program, "generate", "Write text with a model. To stdout.",
                  "zerotrain generate --model runs/quickstart/export --prompt 'Love, n.' --max-tokens 200");
  command->add_option("--model", g.model, "A Hugging Face model folder, or a checkpoint")
      ->type_name("DIR")
      ->required();
  CLI::Option* const prompt = command->add_option("--prompt", g.prompt, "What the text begins with");
  command
      ->add_option(
          "--prompts", g.prompts,
          "Answer each prompt of a file, as a JSON line: text with a prompt a line, or, with --chat, "
          "rows of messages (.json, .jsonl)")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_flag("--chat", g.chat, "The prompt is a user's message; print the model's answer to it");
  command->add_option("--system", g.system, "With --chat: the system message")->type_name("TEXT");
  command
      ->add_option("--template", g.chat_template,
                   "With --chat: the chat template, as data.chat_template; auto takes the model's own")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--greedy", g.greedy, "Always take the most likely token");
  command->add_option("--temperature", g.temperature, "Below 1 bolder, above 1 wilder")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-p", g.top_p, "Draw from the most likely tokens that reach this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--max-tokens", g.max_tokens, "At most so many new tokens")
      ->check(CLI::Range(std::int64_t{0}, kMaxCount))
      ->capture_default_str();
  command->add_option("--seed", g.seed, "The same seed draws the same text")->capture_default_str();
  command->add_option("--device", g.device, "Where it computes, as run.device: auto, cpu or cuda")
      ->type_name("NAME")
      ->capture_default_str();
  command->callback([&] { action = [&] { return generate(g); }; });
}

void add_tokenize_command(CLI::App& program, Options& o, Action& action) {
  CLI::App* command =
      add_command(program, "tokenize", "Turn lines of stdin into token ids, or ids into text. To stdout.",
                  "echo 'Once upon a time' | zerotrain tokenize --tokenizer runs/quickstart/export");
  command->add_option("--tokenizer", o.tokenizer, "A folder with tokenizer.json, or `byte`")
      ->type_name("DIR")
      ->required();
  command->add_flag("--decode", o.decode, "Lines of ids to text");
  command->callback([&] { action = [&] { return tokenize(o.tokenizer, o.decode); }; });
}

void add_export_command(CLI::App& program, Options& o, Action& action) {
  CLI::App* const command = add_command(
      program, "export",
      "Write a checkpoint or a model as a complete Hugging Face folder. To the folder --to.",
      "zerotrain export --checkpoint runs/quickstart/checkpoints/step-00001500 --to quickstart-bf16 "
      "--dtype bf16");
  CLI::Option_group* const from = command->add_option_group("source");
  from->add_option("--checkpoint", o.checkpoint, "A checkpoint: a step folder")->type_name("DIR");
  from->add_option("--model", o.model, "A Hugging Face model folder")->type_name("DIR");
  from->require_option(1);
  command->add_option("--to", o.to, "The folder to make")->type_name("DIR")->required();
  command->add_option("--dtype", o.dtype, "Number format of the weights; as stored if not given")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}));
  command->callback([&] {
    action = [&] { return export_folder(o.model.empty() ? o.checkpoint : o.model, o.to, o.dtype); };
  });
}

void add_checkpoint_commands(CLI::App& program, Options& o, Action& action) {
  CLI::App* const group = add_command(
      program, "checkpoint", "Show what checkpoints hold, and whether every byte is right. To stdout.",
      "zerotrain checkpoint list runs/quickstart");
  group->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& what, const std::string& example,
                       int (*run)(const std::string&)) {
    CLI::App* const command = add_command(*group, name, what, example);
    command->add_option("path", o.checkpoint, "A run's folder, or a step folder")
        ->type_name("DIR")
        ->required();
    command->callback([&action, &o, run] { action = [&o, run] { return run(o.checkpoint); }; });
  };
  add("list", "List a run's checkpoints by step, broken ones with the reason. To stdout.",
      "zerotrain checkpoint list runs/quickstart", list_checkpoints);
  add("verify", "Read every byte and compare it with its digest; status 4 names what differs. To stdout.",
      "zerotrain checkpoint verify runs/quickstart/checkpoints/step-00001500", verify_checkpoint);
  add("inspect", "Print a checkpoint's state and tensors as JSON. To stdout.",
      "zerotrain checkpoint inspect runs/quickstart/checkpoints/step-00001500", inspect_checkpoint);
}

void add_report_command(CLI::App& program, Options& o, Action& action) {
  CLI::App* const command = add_command(program, "report",
                                        "Show a run, also one that is still going on, as one self-contained "
                                        "HTML page: curves, a step's lanes, events, "
                                        "recipe. Several runs are laid over each other. To stdout.",
                                        "zerotrain report runs/quickstart --to report.html");
  command->add_option("folders", o.report.folders, "Runs' folders (run.output_dir)")
      ->type_name("DIR")
      ->required();
  command->add_option("--to", o.report.to, "The page's file, stdout if not given")->type_name("FILE");
  command->callback([&] { action = [&] { return report(o.report); }; });
}

void add_doctor_command(CLI::App& program, Options& o, Action& action) {
  DoctorArgs& d = o.doctor;
  CLI::App* const command =
      add_command(program, "doctor",
                  "Say what this machine is and what is wrong with it, to stdout; or measure what it can do, "
                  "to a cluster "
                  "file that plans read. Under mpirun, ranks are measured as it starts them.",
                  "mpirun -n 2 zerotrain doctor --calibrate");
  CLI::Option* const calibrate =
      command->add_flag("--calibrate", d.calibrate, "Measure, for some minutes; best on an idle machine");
  command
      ->add_option(
          "--to", d.to,
          "The cluster file, one in the user's cache folder if not given; what was measured for other "
          "numbers of ranks stays in it")
      ->type_name("FILE")
      ->needs(calibrate);
  command
      ->add_option("--ranks", d.ranks, "Measure so many virtual ranks at a time; 1, 2, 4, ... if not given")
      ->type_name("N,N")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->needs(calibrate);
  command->add_flag("--quick", d.quick, "A few small sizes only: seconds, and plans that are far off")
      ->needs(calibrate);
  command->add_flag("--float16", d.float16, "Measure float16 too")->needs(calibrate);
  command->callback([&] { action = [&] { return doctor(d); }; });
}

void require_known_command(const CLI::App& program, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "-";
  if (word.empty() || word[0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* const command : program.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string near = nearest(word, names);
  throw Error(Blame::usage,
              cat("there is no command '", word, "'", near.empty() ? "" : cat("; did you mean ", near, "?")),
              cat("the commands are ", join(names, ", "), "; zerotrain --recipe FILE trains"));
}

// A full disk behind stdout shows only here.
int delivered(int status) {
  if (!std::cout.flush())
    throw Error(Blame::machine, "the result could not be written to stdout", "is there space on the disk?");
  return status;
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App program("Trains transformer language models from a recipe.", "zerotrain");
  program.footer(
      "Example:\n  zerotrain --recipe recipes/quickstart.yaml --set train.max_steps=100\n"
      "leaves metrics.jsonl, log.txt and a Hugging Face folder in the recipe's run.output_dir.");
  program.set_version_flag("--version", "zerotrain " ZEROTRAIN_VERSION);
  Options o;
  Action action;
  add_recipe(program, o.train.recipe);
  add_ranks(program, o.train.ranks, "Without a launcher: so many virtual ranks in one process");
  program
      .add_option(
          "--resume", o.train.resume,
          "Whether to go on from a checkpoint: auto (the newest good one, if there is one), must, never, or "
          "the path of one")
      ->type_name("WORD|PATH")
      ->capture_default_str();
  program.add_flag("--dry-run", o.train.dry_run, "Open, check and plan everything; write nothing");
  program.require_subcommand(0, 1);
  add_recipe_commands(program, o, action);
  add_manual_commands(program, o, action);
  add_tokenize_command(program, o, action);
  add_generate_command(program, o, action);
  add_export_command(program, o, action);
  add_checkpoint_commands(program, o, action);
  add_report_command(program, o, action);
  add_doctor_command(program, o, action);
  require_known_command(program, argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return program.exit(e);
  } catch (const CLI::ParseError& e) {
    throw Error(Blame::usage, e.what(),
                "zerotrain --help lists the commands, zerotrain COMMAND --help their options");
  }
  if (action) return delivered(action());
  if (o.train.recipe.path.empty())
    throw Error(Blame::usage, "no recipe was given",
                "zerotrain --recipe FILE trains; zerotrain --help lists the commands");
  return train(o.train);
}

}  // namespace zt::app
