#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/source.h"
#include "text/utf8.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

// A document longer than this is encoded in pieces, to bound memory.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

// Where the first piece ends: before a line that starts with a letter or digit, after a line end that no other
// white space precedes, since tokenizers join white space. Text without such lines is cut between characters.
std::size_t piece_end(std::string_view text) {
  if (text.size() <= kPieceBytes) return text.size();
  const auto is = [&](std::size_t at, int (*kind)(int)) {
    return kind(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = kPieceBytes; at > kPieceBytes / 2; --at) {
    if (text[at - 1] == '\n' && is(at, std::isalnum) && !is(at - 2, std::isspace)) return at;
  }
  std::size_t at = kPieceBytes;
  while (at > kPieceBytes - 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

enum class Part { all, training, validation };

struct Options {
  const recipe::Data& settings;
  const text::Tokenizer& tokenizer;
  std::int64_t vocabulary;
  bool add_bos, add_eos;
};

// Says how far a long tokenization is, every few seconds.
class ProgressLines {
 public:
  explicit ProgressLines(std::int64_t total) : total_(total) {}
  void add(std::size_t bytes) {
    done_ += static_cast<std::int64_t>(bytes);
    const auto now = Clock::now();
    if (now - last_ < std::chrono::seconds(5)) return;
    last_ = now;
    log::info(cat("tokenizing: ", human_bytes(done_), " of ", human_bytes(total_)));
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t total_, done_ = 0;
  Clock::time_point last_ = Clock::now();
};

std::string_view part_of(std::string_view text, Part part, double fraction) {
  text = without_bom(text);
  if (part == Part::all) return text;
  const auto cut = static_cast<std::size_t>(validation_start(text, fraction));
  return part == Part::training ? text.substr(0, cut) : text.substr(cut);
}

void put(TokenFileWriter& out, const std::vector<std::int32_t>& ids, const Options& o) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= o.vocabulary)
      throw Error(Blame::model,
                  cat("the tokenizer makes id ", id, " ('", o.tokenizer.token(id), "'), but the model has ",
                      o.vocabulary, " embedding rows"),
                  "use the model's own tokenizer, or a model with a larger vocab_size");
  }
  out.add(ids);
}

void add_document(TokenFileWriter& out, std::string_view document, const Options& o,
                  ProgressLines& progress) {
  if (o.add_bos) put(out, {o.tokenizer.bos().value()}, o);
  while (!document.empty()) {
    const std::string_view piece = document.substr(0, piece_end(document));
    put(out, o.tokenizer.encode(piece), o);
    progress.add(piece.size());
    document.remove_prefix(piece.size());
  }
  if (o.add_eos) put(out, {o.tokenizer.eos().value()}, o);
  out.end_document();
}

// Everything that decides the ids, as the name of the cache file.
std::string cache_key(const std::vector<TextFile>& files, Part part, double fraction, const Options& o) {
  std::string key = cat("token file 1|", o.tokenizer.fingerprint(), "|", o.vocabulary, "|", o.add_bos,
                        o.add_eos, "|", int(part), "|", part == Part::all ? 0.0 : fraction);
  for (const TextFile& file : files)
    key += cat("|", digest_of_file(file.path, Blame::data), digest_of(file.separator));
  return digest_of(key);
}

void throw_all(const std::vector<Error>& faults) {
  if (faults.size() == 1) throw faults.front();
  Problems problems;
  for (const Error& fault : faults) problems.add(fault.problem());
  problems.throw_if_any(Blame::data, cat(faults.size(), " text files cannot be read:"),
                        faults.empty() ? "" : faults.front().hint());
}

void tokenize(const std::vector<TextFile>& files, Part part, double fraction, const Options& o,
              const fs::path& to) {
  std::int64_t bytes = 0;
  for (const TextFile& file : files) bytes += static_cast<std::int64_t>(fs::file_size(file.path));
  ProgressLines progress(bytes);
  TokenFileWriter out(to, o.vocabulary);
  std::vector<Error> faults;
  for (const TextFile& file : files) {
    try {
      const MappedFile mapped(file.path, Blame::data);
      for (const std::string_view document :
           documents_of(part_of(mapped.text(), part, fraction), file.separator))
        add_document(out, document, o, progress);
    } catch (const Error& e) {
      faults.emplace_back(e.blame(), cat(file.path.string(), ": ", e.problem()), e.hint());
      if (e.blame() != Blame::data) throw faults.back();
    }
  }
  throw_all(faults);
  out.finish();
}

// For people: the first files by name, the others by number.
std::string names_of(const std::vector<TextFile>& files) {
  constexpr std::size_t shown = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(files.size(), shown); ++i) names.push_back(files[i].path.string());
  return join(names, ", ") + (files.size() > shown ? cat(" and ", files.size() - shown, " more files") : "");
}

std::unique_ptr<Dataset> open_part(const std::vector<recipe::Source>& sources, Part part, double fraction,
                                   const Options& o, const std::string& what) {
  const std::vector<TextFile> files = text_files(sources);
  const fs::path cached = cache_folder() / (cache_key(files, part, fraction, o) + ".tokens");
  if (fs::exists(cached)) {
    require_intact(cached);
  } else {
    tokenize(files, part, fraction, o, cached);
  }
  const std::string name = files.size() == 1 ? files.front().path.filename().string() : what;
  auto data = std::make_unique<Dataset>(cached, name, o.settings.sequence_length, o.settings.packing);
  if (data->rows() == 0)
    throw Error(Blame::data,
                cat("the ", what, " data has no row with a token to train on: ", data->tokens(),
                    " tokens in ", names_of(files)),
                "a document needs at least two tokens; with validation.fraction, a smaller fraction leaves "
                "more to train on");
  return data;
}

}  // namespace

std::string training_text(const recipe::Data& settings) {
  const std::vector<TextFile> files = text_files(settings.train);
  std::string text;
  for (const TextFile& file : files) {
    const MappedFile mapped(file.path, Blame::data);
    try {
      text::require_utf8(mapped.text());
    } catch (const Error& e) {
      throw Error(e.blame(), cat(file.path.string(), ": ", e.problem()), e.hint());
    }
    for (const std::string_view document : documents_of(without_bom(mapped.text()), file.separator))
      text += document;
  }
  if (text.empty())
    throw Error(Blame::data, cat("there is no text to make a tokenizer from in ", names_of(files)));
  return text;
}

TextData open_text(const recipe::Data& settings, const text::Tokenizer& tokenizer, std::int64_t vocabulary,
                   bool with_training) {
  const bool wants_bos = settings.add_bos == recipe::AddBos::yes ||
                         (settings.add_bos == recipe::AddBos::automatic && tokenizer.adds_bos());
  if (wants_bos && !tokenizer.bos())
    throw Error(Blame::usage, "data.add_bos: the tokenizer has no beginning token",
                "set data.add_bos: false");
  // Character tokenizers have no end token; there a document simply ends.
  const Options o{settings, tokenizer, vocabulary, wants_bos,
                  settings.add_eos && tokenizer.eos().has_value()};
  const double fraction = settings.validation.fraction.value_or(0.0);
  TextData data;
  if (with_training)
    data.train =
        open_part(settings.train, fraction > 0 ? Part::training : Part::all, fraction, o, "training");
  if (fraction > 0) data.validation = open_part(settings.train, Part::validation, fraction, o, "validation");
  if (!settings.validation.sources.empty())
    data.validation = open_part(settings.validation.sources, Part::all, 0, o, "validation");
  return data;
}

}  // namespace zt::data
