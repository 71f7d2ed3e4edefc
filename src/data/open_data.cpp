#include "data/open_data.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/chunks.h"
#include "data/order.h"
#include "data/source.h"
#include "recipe/words.h"
#include "text/chat_choice.h"
#include "text/utf8.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

// A source, and which part of it is wanted.
struct Wanted {
  Job job;
  Encoding encoding;
  std::optional<double> weight;
  bool validation = false;
  double fraction = 0;  // of the documents that validate, where both parts come from one source
};

std::string file_names(const std::vector<TextFile>& files) {
  constexpr std::size_t shown = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(files.size(), shown); ++i) names.push_back(files[i].path.string());
  return join(names, ", ") + (files.size() > shown ? cat(" and ", files.size() - shown, " more files") : "");
}

// The file names of sources, and their paths where two sources have the same.
std::vector<std::string> names_of(const std::vector<recipe::Source>& sources) {
  const auto short_name = [](const recipe::Source& s) {
    return fs::path(s.path).lexically_normal().filename().string();
  };
  std::map<std::string, int> uses;
  for (const recipe::Source& s : sources) ++uses[short_name(s)];
  std::vector<std::string> names;
  for (const recipe::Source& s : sources) {
    const std::string name = short_name(s);
    names.push_back(name.empty() || uses[name] > 1 ? s.path : name);
  }
  return names;
}

Encoding encoding_of(const recipe::Data& settings, const recipe::Source& source, const Rendering& r) {
  Encoding e{r.tokenizer, r.vocabulary};
  e.train_on = settings.train_on;
  if (source.format == recipe::Format::text) {
    e.add_bos = adds_bos(settings.add_bos, *r.tokenizer);
    // Character tokenizers have no end token; there a document simply ends.
    e.add_eos = settings.add_eos && r.tokenizer->eos().has_value();
  } else {
    e.chat = source.format == recipe::Format::completion ? r.plain : r.chat;
    if (e.chat == nullptr) throw Error(Blame::bug, cat("no chat template was resolved for ", source.path));
  }
  return e;
}

// A name in `fields` that the format does not have would silently do nothing.
void require_known_fields(const recipe::Data& settings) {
  Problems problems;
  for (const auto* sources : {&settings.train, &settings.validation.sources}) {
    for (const recipe::Source& source : *sources) {
      const std::vector<std::string> known = field_names(source.format);
      for (const auto& [ours, theirs] : source.fields)
        if (std::ranges::find(known, ours) == known.end())
          problems.add(cat(source.path, ": format ", recipe::word_of(source.format), " has no field '", ours,
                           "'; its fields are ", join(known, ", ")));
    }
  }
  problems.throw_if_any(Blame::usage,
                        "`fields` of the data have problems:", "write {our name: the file's name}");
}

void add_wanted(const recipe::Data& settings, const std::vector<recipe::Source>& sources, const Rendering& r,
                double fraction, bool validation, Problems& problems, std::vector<Wanted>& wanted) {
  const std::vector<std::string> names = names_of(sources);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const recipe::Source& source = sources[i];
    Wanted w;
    w.encoding = encoding_of(settings, source, r);
    w.weight = source.weight;
    w.validation = validation;
    w.fraction = fraction;
    w.job.name = names[i];
    w.job.files = files_of(source, problems);
    w.job.rows = holds_rows(source);
    w.job.format = {source.format, source.fields, source.tools == recipe::Tools::ignore};
    if (!w.job.rows && fraction > 0) {
      w.job.part = validation ? Part::validation : Part::training;
      w.job.fraction = fraction;
    }
    wanted.push_back(std::move(w));
  }
}

std::vector<Wanted> all_wanted(const recipe::Data& settings, const Rendering& r, bool with_training) {
  require_known_fields(settings);
  const double fraction = settings.validation.fraction.value_or(0.0);
  Problems problems;
  std::vector<Wanted> wanted;
  if (with_training) add_wanted(settings, settings.train, r, fraction, false, problems, wanted);
  Problems again;  // the same files: what is wrong with them is told once
  if (fraction > 0)
    add_wanted(settings, settings.train, r, fraction, true, with_training ? again : problems, wanted);
  add_wanted(settings, settings.validation.sources, r, 0, true, problems, wanted);
  problems.throw_if_any(
      Blame::data, "data files have problems:",
      "a source is a file, or a folder of them; relative paths start at the current folder");
  return wanted;
}

// The folders of the token files, in the same order. Texts that cannot be encoded are told together.
TokenFolders prepare_all(const std::vector<Wanted>& all, const Share& share) {
  TokenFolders folders;
  std::vector<Error> faults;
  for (const Wanted& wanted : all) {
    try {
      folders.push_back(prepare(wanted.job, wanted.encoding, share));
    } catch (const Error& e) {
      if (e.blame() != Blame::data) throw;
      faults.push_back(e);
    }
  }
  throw_together(faults, "sources");
  return folders;
}

// Which documents validate: as many as the fraction says, drawn once for all runs.
bool validates(std::int64_t document, std::int64_t documents, double fraction) {
  constexpr std::uint64_t kSeed = 0;
  const auto held = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(documents)));
  return permuted(document, documents, kSeed, 0) < held;
}

// Documents of JSON rows that are used, and why the others are not.
class Selection {
 public:
  Selection(const recipe::Data& settings, const Wanted& wanted, const Documents& documents,
            SourceReport& report)
      : settings_(settings), wanted_(wanted), documents_(documents), report_(report) {}

  std::vector<std::int64_t> take() {
    std::vector<std::int64_t> which;
    for (std::int64_t d = 0; d < documents_.documents(); ++d)
      if (takes(d)) which.push_back(d);
    report_.documents = static_cast<std::int64_t>(which.size());
    return which;
  }

 private:
  bool takes(std::int64_t document) {
    if (wanted_.fraction > 0 &&
        validates(document, documents_.documents(), wanted_.fraction) != wanted_.validation) {
      ++report_.held_out;
      return false;
    }
    const std::int64_t length = documents_.length(document);
    if (length <= settings_.sequence_length) return true;
    if (settings_.overlong == recipe::Overlong::truncate) {
      ++report_.cut;
      if (trained_before(document, settings_.sequence_length)) return true;
      --report_.cut;
      ++report_.untrained;
      note(document, "cut at data.sequence_length, no trained token is left");
      return false;
    }
    ++report_.overlong;
    note(document, cat(with_commas(length), " tokens, over data.sequence_length"));
    return false;
  }

  bool trained_before(std::int64_t document, std::int64_t end) const {
    const std::int64_t begin = documents_.document_begin(document);
    for (std::int64_t at = begin + 1; at < begin + end; ++at)
      if (documents_.trained(at)) return true;
    return false;
  }

  void note(std::int64_t document, const std::string& reason) {
    if (report_.examples.size() >= kNotedExamples) return;
    const Origin origin = documents_.origin(document);
    report_.examples.push_back(
        text_of(wanted_.job,
                {origin.file, origin.line, 0, cat(reason, " (", wanted_.job.name, "#", origin.row, ")")}));
  }

  const recipe::Data& settings_;
  const Wanted& wanted_;
  const Documents& documents_;
  SourceReport& report_;
};

// Faults of all sources, for one message.
struct Faults {
  std::int64_t rows = 0;
  bool cut = false;
  std::vector<std::string> examples;

  void add(const Job& job, const ChunkNotes& notes) {
    rows += notes.faulty;
    cut |= notes.cut;
    for (const Example& e : notes.faults)
      if (examples.size() < kNotedExamples) examples.push_back(text_of(job, e));
  }
};

void judge(const Faults& faults, const recipe::Data& settings) {
  if (faults.rows == 0) return;
  std::string list;
  for (const std::string& example : faults.examples) list += "\n  " + example;
  // A row may have several faults, so nobody knows how many rows the list leaves out.
  if (faults.examples.size() == kNotedExamples) list += cat("\n  (the first ", kNotedExamples, " faults)");
  const std::string rows = faults.rows == 1 ? "1 bad row" : cat(with_commas(faults.rows), " bad rows");
  // Nobody can say how many rows stand behind the place where a file loses its structure.
  if (faults.cut)
    throw Error(Blame::data, cat("the data files have ", rows, ", and one cannot be read to its end:", list),
                "mend or replace the file");
  if (settings.bad_rows == recipe::BadRows::error)
    throw Error(Blame::data, cat("the data files have ", rows, ":", list),
                "mend them, or leave them out with data.bad_rows: skip");
  if (faults.rows > settings.max_bad_rows)
    throw Error(
        Blame::data,
        cat("the data files have ", rows, ", over data.max_bad_rows = ", settings.max_bad_rows, ":", list),
        "so many often mean another format than data.train[].format says; else raise data.max_bad_rows");
  log::warn(cat("skipped ", rows, ":", list));
}

ChunkNotes notes_of(const Documents& documents) {
  ChunkNotes all;
  for (const std::string& notes : documents.notes()) all.add(ChunkNotes::parse(notes));
  return all;
}

// Trained tokens of the rows as they are, each target once.
std::int64_t trained_in(const Documents& documents, const std::vector<std::int64_t>& which,
                        std::int64_t length) {
  std::int64_t trained = 0;
  for (const std::int64_t d : which) {
    const std::int64_t begin = documents.document_begin(d);
    const std::int64_t end = begin + std::min(length, documents.length(d));
    for (std::int64_t at = begin + 1; at < end; ++at) trained += documents.trained(at) ? 1 : 0;
  }
  return trained;
}

class Opener {
 public:
  Opener(const recipe::Data& settings, bool with_training)
      : settings_(settings), with_training_(with_training) {}

  // `folder` holds the token files of what is wanted.
  void open(const Wanted& wanted, const fs::path& folder, DataSets& sets);
  void finish(DataSets& sets);

 private:
  std::unique_ptr<RowSet> text_rows(const Wanted& wanted, std::shared_ptr<const Documents> documents,
                                    SourceReport& report);
  std::unique_ptr<RowSet> document_rows(const Wanted& wanted, std::shared_ptr<const Documents> documents,
                                        SourceReport& report);
  void require_rows(const Wanted& wanted, const SourceReport& report);
  void require_validation(const DataSets& sets);

  const recipe::Data& settings_;
  const bool with_training_;
  Faults faults_;
  Problems empty_, no_part_;  // sources without rows; those without rows that validate
  std::vector<Dataset::Source> train_, validation_;
};

std::unique_ptr<RowSet> Opener::text_rows(const Wanted& wanted, std::shared_ptr<const Documents> documents,
                                          SourceReport& report) {
  report.raw_text = true;
  report.documents = documents->documents();
  auto rows = rows_of_text(documents, wanted.job.name, settings_.sequence_length, settings_.packing);
  report.tokens = rows->tokens();
  report.trained = report.tokens - report.documents;
  return rows;
}

std::unique_ptr<RowSet> Opener::document_rows(const Wanted& wanted,
                                              std::shared_ptr<const Documents> documents,
                                              SourceReport& report) {
  const ChunkNotes notes = notes_of(*documents);
  report.rows = notes.rows;
  report.untrained = notes.untrained;
  report.faulty = notes.faulty;
  report.had_bom = notes.had_bom;
  for (const Example& e : notes.untrained_at)
    report.examples.push_back(text_of(wanted.job, {e.file, e.line, 0, "no token to train"}));
  // One source that both trains and validates is judged once.
  if (!(wanted.validation && wanted.fraction > 0 && with_training_)) faults_.add(wanted.job, notes);
  std::vector<std::int64_t> which = Selection(settings_, wanted, *documents, report).take();
  const bool whole = which.size() == static_cast<std::size_t>(documents->documents()) && report.cut == 0;
  report.trained = whole ? notes.trained : trained_in(*documents, which, settings_.sequence_length);
  auto rows = rows_of_documents(documents, wanted.job.name, std::move(which), settings_.sequence_length,
                                settings_.packing);
  report.tokens = rows->tokens();
  return rows;
}

void Opener::require_rows(const Wanted& wanted, const SourceReport& report) {
  if (report.packed_rows > 0) return;
  const std::string what = wanted.validation ? "validation" : "training";
  Problems& problems = wanted.validation && wanted.fraction > 0 ? no_part_ : empty_;
  if (report.raw_text) {
    problems.add(cat("the ", what, " data has no row with a token to train on: ", report.tokens,
                     " tokens in ", file_names(wanted.job.files)));
    return;
  }
  std::vector<std::string> why;
  if (report.overlong > 0) why.push_back(cat(report.overlong, " over data.sequence_length"));
  if (report.untrained > 0) why.push_back(cat(report.untrained, " without a token to train"));
  if (report.faulty > 0) why.push_back(cat(report.faulty, " bad"));
  if (report.held_out > 0)
    why.push_back(cat(report.held_out, wanted.validation ? " for training" : " for validation"));
  std::string text =
      cat("the ", what, " data has no row with a trained token: ", with_commas(report.rows), " rows in ",
          file_names(wanted.job.files), why.empty() ? "" : ", " + join(why, ", "));
  for (const std::string& example : report.examples) text += "\n    " + example;
  problems.add(std::move(text));
}

// A source may be too small for its part of the validation data; all may not.
void Opener::require_validation(const DataSets& sets) {
  const auto validates = [](const SourceReport& r) { return r.validation && r.packed_rows > 0; };
  if (std::ranges::any_of(sets.reports, validates)) return;
  no_part_.throw_if_any(Blame::data, "there is nothing to validate on:",
                        "raise data.validation.fraction, or name files of their own in data.validation");
}

void Opener::open(const Wanted& wanted, const fs::path& folder, DataSets& sets) {
  auto files = finished_chunks(folder);
  if (!files) files = finished_chunks(prepare(wanted.job, wanted.encoding, {}));
  if (!files)
    throw Error(Blame::bug, cat("token files are missing in ", folder.string(), " after they were made"));
  for (const fs::path& file : *files) require_intact(file);
  auto documents = std::make_shared<const Documents>(*files);
  SourceReport report;
  report.name = wanted.job.name;
  report.validation = wanted.validation;
  report.length = settings_.sequence_length;
  auto rows =
      wanted.job.rows ? document_rows(wanted, documents, report) : text_rows(wanted, documents, report);
  report.packed_rows = rows->rows();
  require_rows(wanted, report);
  const bool any = report.packed_rows > 0;
  sets.reports.push_back(std::move(report));
  if (!any) return;
  (wanted.validation ? validation_ : train_).push_back({wanted.job.name, std::move(rows), wanted.weight});
}

// In the order in which people can mend things: bad rows, rows that are too long, sources without rows.
void Opener::finish(DataSets& sets) {
  judge(faults_, settings_);
  std::int64_t overlong = 0;
  std::string list;
  for (const SourceReport& report : sets.reports) {
    overlong += report.overlong;
    for (const std::string& example : report.examples) list += "\n  " + example;
  }
  if (settings_.overlong == recipe::Overlong::error && overlong > 0)
    throw Error(Blame::data,
                cat(with_commas(overlong), overlong == 1 ? " row is" : " rows are",
                    " longer than data.sequence_length = ", settings_.sequence_length, ":", list),
                "raise data.sequence_length, or set data.overlong to drop or truncate");
  empty_.throw_if_any(
      Blame::data, "there are data sources without a row to use:",
      cat("a document needs at least two tokens, of which one is trained",
          settings_.validation.fraction ? "; or lower data.validation.fraction, which leaves more to train on"
                                        : ""));
  require_validation(sets);
  if (!train_.empty()) sets.train = std::make_unique<Dataset>(std::move(train_), settings_.sequence_length);
  if (!validation_.empty())
    sets.validation = std::make_unique<Dataset>(std::move(validation_), settings_.sequence_length);
}

}  // namespace

double SourceReport::efficiency() const {
  return packed_rows > 0
             ? static_cast<double>(tokens) / (static_cast<double>(packed_rows) * static_cast<double>(length))
             : 0;
}

bool adds_bos(recipe::AddBos choice, const text::Tokenizer& tokenizer) {
  const bool wanted = text::wants_bos(choice, tokenizer);
  if (wanted && !tokenizer.bos())
    throw Error(Blame::usage, "data.add_bos: the tokenizer has no beginning token",
                "set data.add_bos: false");
  return wanted;
}

std::optional<TokenFolders> prepare_data(const recipe::Data& settings, const Rendering& rendering,
                                         const Share& share, bool with_training) {
  bool stopped = false;
  Share mine = share;
  mine.stops = [&] { return stopped = stopped || (share.stops && share.stops()); };
  TokenFolders folders = prepare_all(all_wanted(settings, rendering, with_training), mine);
  return stopped ? std::nullopt : std::optional(std::move(folders));
}

DataSets open_data(const recipe::Data& settings, const Rendering& rendering, bool with_training) {
  return open_data(settings, rendering, prepare_data(settings, rendering, {}, with_training).value(),
                   with_training);
}

DataSets open_data(const recipe::Data& settings, const Rendering& rendering, const TokenFolders& folders,
                   bool with_training) {
  const std::vector<Wanted> all = all_wanted(settings, rendering, with_training);
  Opener opener(settings, with_training);
  DataSets sets;
  for (std::size_t i = 0; i < all.size(); ++i) opener.open(all[i], folders[i], sets);
  opener.finish(sets);
  return sets;
}

std::string training_text(const recipe::Data& settings) {
  const std::vector<TextFile> files = files_of(settings.train);
  std::string text;
  for (const TextFile& file : files) {
    const WholeText whole(file.path);
    try {
      text::require_utf8(whole.text());
    } catch (const Error& e) {
      throw Error(e.blame(), cat(file.path.string(), ": ", e.problem()), e.hint());
    }
    for (const std::string_view document : documents_of(without_bom(whole.text()), file.separator))
      text += document;
  }
  if (text.empty())
    throw Error(Blame::data, cat("there is no text to make a tokenizer from in ", file_names(files)));
  return text;
}

}  // namespace zt::data
