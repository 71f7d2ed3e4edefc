#include "data/preparation.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/chunks.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

fs::path chunk_path(const fs::path& folder, std::int64_t chunk) {
  return folder / fmt::format("{:06d}.tokens", chunk);
}

void add_examples(std::vector<Example>& to, const std::vector<Example>& from) {
  for (const Example& example : from)
    if (to.size() < kNotedExamples) to.push_back(example);
}

Json json_of(const std::vector<Example>& examples) {
  Json list = Json::array();
  for (const Example& e : examples) list.push_back({e.file, e.line, e.column, e.reason});
  return list;
}

[[noreturn]] void refuse_notes() {
  throw Error(
      Blame::data, "a token cache is damaged: its notes are not what this program writes",
      "delete the cache folder (ZEROTRAIN_CACHE, or ~/.cache/zerotrain); it is made again from the text");
}

// Counts of rows and places in files. Chunks' numbers are added up, so there is a bound.
std::int64_t number_in(const Json& value, std::int64_t most = std::int64_t{1} << 48) {
  if (!value.is_number_integer()) refuse_notes();
  const auto number = value.get<std::int64_t>();
  if (number < 0 || number > most) refuse_notes();
  return number;
}

std::vector<Example> examples_of(const Json& list) {
  constexpr std::int64_t kMostFiles = std::numeric_limits<std::int32_t>::max();
  std::vector<Example> examples;
  for (const Json& e : list)
    examples.push_back({static_cast<std::int32_t>(number_in(e.at(0), kMostFiles)), number_in(e.at(1)),
                        number_in(e.at(2)), e.at(3)});
  return examples;
}

}  // namespace

std::string ChunkNotes::json() const {
  // Reasons may quote bytes of a file that are no UTF-8.
  return Json{{"rows", rows},
              {"trained", trained},
              {"untrained", untrained},
              {"faulty", faulty},
              {"cut", cut},
              {"had_bom", had_bom},
              {"untrained_at", json_of(untrained_at)},
              {"faults", json_of(faults)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

ChunkNotes ChunkNotes::parse(const std::string& json) {
  ChunkNotes notes;
  if (json.empty()) return notes;
  try {
    const Json j = Json::parse(json);
    notes.rows = number_in(j.at("rows"));
    notes.trained = number_in(j.at("trained"));
    notes.untrained = number_in(j.at("untrained"));
    notes.faulty = number_in(j.at("faulty"));
    notes.cut = j.at("cut");
    notes.had_bom = j.at("had_bom");
    notes.untrained_at = examples_of(j.at("untrained_at"));
    notes.faults = examples_of(j.at("faults"));
  } catch (const Json::exception&) {
    refuse_notes();
  }
  return notes;
}

void ChunkNotes::add(const ChunkNotes& other) {
  rows += other.rows;
  trained += other.trained;
  untrained += other.untrained;
  faulty += other.faulty;
  cut |= other.cut;
  had_bom |= other.had_bom;
  add_examples(untrained_at, other.untrained_at);
  add_examples(faults, other.faults);
}

std::string text_of(const Job& job, const Example& e) {
  const auto file = static_cast<std::size_t>(e.file);  // as a cache says it
  std::string text = file < job.files.size() ? job.files[file].path.string() : cat("file ", e.file);
  if (e.line > 0) text += cat(":", e.line);
  if (e.column > 0) text += cat(":", e.column);
  return e.reason.empty() ? text : cat(text, ": ", e.reason);
}

ProgressLines::ProgressLines(const std::string& name, std::int64_t total_bytes, bool speaks)
    : name_(name), total_(total_bytes), speaks_(speaks) {}

void ProgressLines::at(std::int64_t done_bytes) {
  const auto now = Clock::now();
  if (!speaks_ || now - last_ < std::chrono::seconds(5)) return;
  last_ = now;
  log::info(cat("tokenizing ", name_, ": ", human_bytes(done_bytes), " of ", human_bytes(total_)));
}

FileStates::FileStates(const std::vector<TextFile>& files) {
  for (const TextFile& file : files) states_.push_back({file.path, state_of(file.path)});
}

// Another file of the same name has another inode; who writes into a file changes its time.
FileStates::State FileStates::state_of(const fs::path& path) {
  struct stat s = {};
  if (::stat(path.c_str(), &s) != 0) return {};
  return {static_cast<std::int64_t>(s.st_ino), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

void FileStates::require_unchanged() const {
  for (const auto& [path, state] : states_)
    if (state_of(path) != state)
      throw Error(Blame::data, cat(path.string(), " changed while it was read"),
                  "start again when it is complete");
}

Chunks::Chunks(fs::path folder, FileStates sources, const Share& share)
    : folder_(std::move(folder)), sources_(std::move(sources)), share_(share) {}

fs::path Chunks::path(std::int64_t chunk) const { return chunk_path(folder_, chunk); }

bool Chunks::wanted(std::int64_t chunk) const {
  return chunk % share_.count == share_.index && !fs::exists(path(chunk));
}

void throw_together(const std::vector<Error>& errors, const char* what) {
  if (errors.size() == 1) throw Error(errors.front());
  Problems problems;
  for (const Error& error : errors) problems.add(error.problem());
  problems.throw_if_any(Blame::data, cat(errors.size(), " ", what, " cannot be read:"),
                        errors.empty() ? "" : errors.front().hint());
}

void require_in_vocabulary(const std::vector<std::int32_t>& ids, const Encoding& e) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= e.vocabulary)
      throw Error(Blame::model,
                  cat("the tokenizer makes id ", id, " ('", e.tokenizer->token(id), "'), but the model has ",
                      e.vocabulary, " embedding rows"),
                  "use the model's own tokenizer, or a model with a larger vocab_size");
  }
}

fs::path chunk_folder(const Job& job, const Encoding& e) {
  std::string key = cat("chunks 2|", e.tokenizer->fingerprint(), "|", e.vocabulary, "|", job.rows);
  if (job.rows) {
    key += cat("|", int(job.format.format), "|", job.format.ignore_tools, "|", e.add_bos, e.add_eos);
    for (const auto& [ours, theirs] : job.format.fields) key += cat("|", digest_of(ours), digest_of(theirs));
    if (e.chat != nullptr && job.format.format != recipe::Format::text)
      key += cat("|", int(e.chat->form()), e.chat->adds_bos(), digest_of(e.chat->default_system()), "|",
                 int(e.train_on));
  } else {
    key +=
        cat("|", e.add_bos, e.add_eos, "|", int(job.part), "|", job.part == Part::all ? 0.0 : job.fraction);
  }
  for (const TextFile& file : job.files)
    key += cat("|", digest_of_file(file.path, Blame::data), digest_of(file.separator));
  return cache_folder() / digest_of(key);
}

// What killed runs have left. Whoever still writes a part has touched it less than an hour ago.
static void remove_lost_parts(const fs::path& folder) {
  const auto lately = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    const auto written = entry->last_write_time(ignored);
    if (!ignored && entry->path().extension() == kPartialEnding && written < lately)
      fs::remove(entry->path(), ignored);
  }
}

std::optional<std::vector<fs::path>> finished_chunks(const fs::path& folder) {
  std::vector<fs::path> files;
  for (bool last = false; !last;) {
    files.push_back(chunk_path(folder, static_cast<std::int64_t>(files.size())));
    if (!fs::exists(files.back())) return std::nullopt;
    last = TokenFile(files.back()).notes().last;
  }
  return files;
}

fs::path prepare(const Job& job, const Encoding& encoding, const Share& share) {
  FileStates sources(job.files);  // before their digests: what changes later is noticed
  const fs::path folder = chunk_folder(job, encoding);
  remove_lost_parts(folder);
  if (finished_chunks(folder)) return folder;
  std::int64_t bytes = 0;
  for (const TextFile& file : job.files) bytes += static_cast<std::int64_t>(fs::file_size(file.path));
  ProgressLines progress(job.name, bytes, share.speaks);
  (job.rows ? prepare_rows : prepare_text)(job, encoding, Chunks(folder, std::move(sources), share),
                                           progress);
  return folder;
}

}  // namespace zt::data
