// What a recipe's data are: summary, rows as ids or as text, and which a run has consumed.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "data/strict_json.h"
#include "data/summary.h"
#include "recipe/recipe.h"
#include "recipe/words.h"
#include "train/setup.h"

namespace zt::app {
namespace {

using Json = nlohmann::ordered_json;

// Data may hold anything; a terminal must not obey it. Lines and tabs stay.
std::string harmless(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += data::shown(text.substr(0, end), text.size());
    out += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// How trained text looks: green on a terminal, in brackets elsewhere.
struct Marks {
  const char *before, *after;
};

Marks marks() {
  if (::isatty(STDOUT_FILENO) != 0) return {"\x1b[32m", "\x1b[0m"};
  return {"\u27e6", "\u27e7"};
}

// One document of a row. Runs are cut out of the text of all ids before their end, because a token's text depends on
// what stands before it.
std::string document_text(const data::Row& row, std::size_t first, std::size_t end,
                          const text::Tokenizer& tokenizer) {
  const Marks mark = marks();
  const std::span<const std::int32_t> ids(row.ids);
  std::string out, before;
  for (std::size_t at = first; at < end;) {
    const bool trained = row.labels[at] >= 0 && at > first;
    std::size_t run = at;
    while (run < end && (row.labels[run] >= 0 && run > first) == trained) ++run;
    const std::string whole = tokenizer.decode(ids.subspan(first, run - first));
    const std::string part = harmless(whole.substr(std::min(before.size(), whole.size())));
    out += trained ? mark.before + part + mark.after : part;
    before = whole;
    at = run;
  }
  return out;
}

void print_text(const data::Row& row, const text::Tokenizer& tokenizer) {
  for (std::size_t d = 0; d + 1 < row.documents.size(); ++d)
    std::cout << "=== " << row.sources[d] << "\n"
              << document_text(row, static_cast<std::size_t>(row.documents[d]),
                               static_cast<std::size_t>(row.documents[d + 1]), tokenizer)
              << "\n";
}

void print_json(const data::Row& row) {
  std::cout << Json{{"id", row.id},
                    {"ids", row.ids},
                    {"labels", row.labels},
                    {"documents", row.documents},
                    {"sources", row.sources}}
                   .dump()
            << "\n";
}

// Every sample the run had consumed when it saved the checkpoint, in order.
int audit(const std::string& path, const data::Dataset& train) {
  const checkpoint::RunState state = checkpoint::Checkpoint::open(path).state();
  if (state.data_digest != train.digest())
    throw Error(Blame::usage,
                cat("the recipe's data are not those of ", path, ": digest ", train.digest().substr(0, 16),
                    ", the run's is ", state.data_digest.substr(0, 16)),
                "give the recipe the run was started with: recipe.yaml in its folder");
  for (std::int64_t sample = 0; sample < state.samples; ++sample) {
    const data::Place place = train.place_of_sample(sample, static_cast<std::uint64_t>(state.seed));
    std::cout << Json{{"sample", sample}, {"sources", train.sources()[place.source].rows->sources(place.row)}}
                     .dump()
              << "\n";
  }
  log::info(cat(with_commas(state.samples), " samples had been consumed after step ", state.step,
                "; an epoch has ", with_commas(train.rows())));
  return 0;
}

}  // namespace

int show_data(const DataArgs& args) {
  const recipe::Recipe r = recipe::load(args.recipe.path, args.recipe.sets, 1).recipe;
  const train::Setup s = train::open(r, train::Use::looking);
  if (!args.audit.empty()) return audit(args.audit, *s.data.train);
  for (const std::string& line : data::summary_of(s.data, r.data)) log::info(line);
  if (s.chat)
    log::info(cat("chat template: ", recipe::word_of(s.chat->form()),
                  s.chat->default_system().empty()
                      ? ""
                      : cat("; system message where there is none: ", s.chat->default_system())));
  const data::Dataset* const rows = args.validation ? s.data.validation.get() : s.data.train.get();
  if (rows == nullptr)
    throw Error(Blame::usage, "the recipe has no data.validation", "add --set data.validation.fraction=0.1");
  for (std::int64_t i = 0; i < std::min(args.rows, rows->rows()); ++i) {
    const data::Row row =
        args.validation ? rows->row(i) : rows->sample(i, static_cast<std::uint64_t>(r.run.seed));
    if (args.text)
      print_text(row, *s.tokenizer);
    else
      print_json(row);
  }
  return 0;
}

}  // namespace zt::app
