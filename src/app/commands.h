// What the program does, one function a command. Results go to stdout, talk to stderr; each returns the exit
// status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zt::app {

// A recipe file and the --set overrides of the command line.
struct RecipeArgs {
  std::string path;
  std::vector<std::string> sets;
};

struct TrainArgs {
  RecipeArgs recipe;
  bool dry_run = false;
  std::string resume = "auto";
  int ranks = 0;  // virtual ranks in this process; 0: those of the launcher, or one
};
int train(const TrainArgs& args);

struct PlanArgs {
  RecipeArgs recipe;
  int ranks = 1;
  std::string
      device;  // a described cluster's name, or a cluster file; "": this machine's calibration, if any
  bool json = false, search = false, estimates = false;
  std::vector<std::string> conventions;  // of the estimates; none: the usual ones
  std::string html, svg;                 // files to write besides; "": none
};
// Status 7 when the plan needs more memory than the device has.
int plan(const PlanArgs& args);
int explain(const RecipeArgs& recipe, int ranks);
int check(const RecipeArgs& recipe);
int keys(const std::string& section);
int schema();
int manual();

struct DataArgs {
  RecipeArgs recipe;
  std::int64_t rows = 3;
  bool text = false, validation = false;
  std::string audit;  // a checkpoint
};
int show_data(const DataArgs& args);

int tokenize(const std::string& tokenizer, bool decode);
int evaluate(const std::string& model, RecipeArgs recipe);

struct GenerateArgs {
  std::string model, prompt;
  std::string prompts;  // a file of them, in place of `prompt`
  bool chat = false;
  std::string system, chat_template = "auto";  // of chat
  bool greedy = false;
  double temperature = 1.0, top_p = 0.95;
  std::int64_t max_tokens = 200;
  std::uint64_t seed = 0;
  std::string device = "auto";
};
int generate(const GenerateArgs& args);

int export_folder(const std::string& model, const std::string& to, const std::string& dtype);

struct DoctorArgs {
  bool calibrate = false;
  std::string to;          // the cluster file; "": plan::calibration_path()
  std::vector<int> ranks;  // counts to measure, without a launcher; none: 1, 2, 4, ... to twice the cores
  bool quick = false, float16 = false;
};
int doctor(const DoctorArgs& args);

struct ReportArgs {
  std::vector<std::string> folders;
  std::string to;  // a file; "": stdout
};
int report(const ReportArgs& args);

int list_checkpoints(const std::string& path);
int verify_checkpoint(const std::string& path);
int inspect_checkpoint(const std::string& path);

}  // namespace zt::app
