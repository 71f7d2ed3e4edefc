// Rows of JSON files to rows of ids: what is used, what is left out, how work is shared, and what a kill leaves.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/open_data.h"
#include "data/summary.h"
#include "support/paths.h"

namespace zt::data {
namespace {
namespace fs = std::filesystem;

// A folder for files, with a token cache of its own and the byte tokenizer's ChatML, plain and Alpaca forms.
class Desk {
 public:
  Desk() { ::setenv("ZEROTRAIN_CACHE", cache().c_str(), 1); }
  ~Desk() { ::unsetenv("ZEROTRAIN_CACHE"); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  fs::path cache() const { return dir_.path() / "cache"; }
  std::string write(const std::string& name, const std::string& bytes) const {
    return dir_.write(name, bytes).string();
  }
  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache())) return files;
    for (const auto& entry : fs::recursive_directory_iterator(cache()))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }
  Rendering rendering() const { return {bytes_.get(), &chat_, &plain_, 264}; }
  DataSets open(const recipe::Data& data) const { return open_data(data, rendering()); }
  std::string error_of(const recipe::Data& data, Blame blame = Blame::data) const {
    try {
      open(data);
    } catch (const Error& e) {
      CHECK(e.blame() == blame);
      return e.what();
    }
    return "no error";
  }

 private:
  test::ScratchDir dir_;
  std::unique_ptr<text::Tokenizer> bytes_ = text::byte_tokenizer();
  text::ChatTemplate chat_{{recipe::ChatTemplate::chatml, "", false}, *bytes_},
      plain_{{recipe::ChatTemplate::none, "", false}, *bytes_};
};

recipe::Source source(const std::string& path, recipe::Format format) {
  recipe::Source s;
  s.path = path;
  s.format = format;
  return s;
}

recipe::Data of(std::vector<recipe::Source> sources, std::int64_t length = 64) {
  recipe::Data data;
  data.sequence_length = length;
  data.train = std::move(sources);
  return data;
}

std::string completion(const std::string& prompt, const std::string& answer) {
  return cat("{\"prompt\": \"", prompt, "\", \"completion\": \"", answer, "\"}\n");
}

std::vector<std::vector<std::int32_t>> ids_of(const Dataset& data) {
  std::vector<std::vector<std::int32_t>> all;
  for (std::int64_t r = 0; r < data.rows(); ++r) all.push_back(data.row(r).ids);
  return all;
}

TEST_CASE(
    "rows: prompt and completion are ids side by side, and only the completion and its end are trained") {
  const Desk desk;
  const DataSets sets =
      desk.open(of({source(desk.write("a.jsonl", completion("ab", "7")), recipe::Format::completion)}));
  const Row row = sets.train->row(0);
  CHECK(row.ids == std::vector<std::int32_t>{'a', 'b', '7', 257});
  CHECK(row.labels == std::vector<std::int32_t>{-100, -100, '7', 257});
  CHECK(row.id == "a.jsonl#0");
  CHECK(sets.reports.at(0).trained == 2);
}

TEST_CASE("rows: a byte-order mark changes nothing and is noted") {
  const Desk desk;
  const std::string rows = completion("p", "q") + completion("r", "s");
  const DataSets plain = desk.open(of({source(desk.write("a.jsonl", rows), recipe::Format::completion)}));
  const DataSets marked =
      desk.open(of({source(desk.write("b.jsonl", "\xEF\xBB\xBF" + rows), recipe::Format::completion)}));
  CHECK(ids_of(*plain.train) == ids_of(*marked.train));
  CHECK_FALSE(plain.reports[0].had_bom);
  CHECK(marked.reports[0].had_bom);
}

TEST_CASE("rows: a malformed line is told with file, line and column before anything runs") {
  const Desk desk;
  const std::string good = completion("p", "q");
  const std::string path =
      desk.write("rows.jsonl", good + good + "{\"instruction\":\"a\"}{\"x\":1}\n" + good);
  recipe::Data data = of({source(path, recipe::Format::completion)});
  const std::string error = desk.error_of(data);
  CHECK(error.find("1 bad row") != std::string::npos);
  CHECK(error.find("rows.jsonl:3:20: ") != std::string::npos);
  CHECK(error.find("data.bad_rows: skip") != std::string::npos);
  data.bad_rows = recipe::BadRows::skip;
  const DataSets sets = desk.open(data);
  CHECK(sets.reports[0].documents == 3);
  CHECK(sets.reports[0].faulty == 1);
  data.max_bad_rows = 0;
  CHECK(desk.error_of(data).find("over data.max_bad_rows = 0") != std::string::npos);
}

TEST_CASE("rows: wrong types are three errors with their lines, and nothing becomes the text None") {
  const Desk desk;
  const std::string path = desk.write("rows.jsonl",
                                      "{\"instruction\": \"a\", \"output\": null}\n"
                                      "{\"instruction\": \"a\", \"output\": 5}\n"
                                      "{\"instruction\": \"a\", \"output\": [\"a\"]}\n");
  const std::string error = desk.error_of(of({source(path, recipe::Format::alpaca)}));
  CHECK(error.find("3 bad rows") != std::string::npos);
  for (const char* line : {"rows.jsonl:1:", "rows.jsonl:2:", "rows.jsonl:3:"})
    CHECK(error.find(line) != std::string::npos);
}

TEST_CASE("rows: an unknown role names line and role") {
  const Desk desk;
  const std::string good =
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": "
      "\"b\"}]}\n";
  const std::string path =
      desk.write("c.jsonl", good + good + "{\"conversations\": [{\"from\": \"robot\", \"value\": \"a\"}]}\n");
  const std::string error = desk.error_of(of({source(path, recipe::Format::sharegpt)}));
  CHECK(error.find("c.jsonl:3:") != std::string::npos);
  CHECK(error.find("robot") != std::string::npos);
}

TEST_CASE("rows: an answer that is marked as one to avoid is not trained as a good one") {
  const Desk desk;
  const auto row = [](const char* label) {
    return cat(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}], \"label\": ",
        label, "}\n");
  };
  const std::string path = desk.write("kto.jsonl", row("true") + row("false"));
  recipe::Data data = of({source(path, recipe::Format::messages)});
  CHECK(desk.error_of(data).find("label is false: the answer is one to avoid") != std::string::npos);
  data.bad_rows = recipe::BadRows::skip;
  CHECK(desk.open(data).reports[0].documents == 1);
}

TEST_CASE("rows: what the template cannot say is a fault of the row, with the cure") {
  const Desk desk;
  const std::string path =
      desk.write("m.jsonl",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                 "\"content\": \"b\"}], \"tools\": [{\"name\": \"f\"}]}\n");
  recipe::Data data = of({source(path, recipe::Format::messages)});
  const std::string error = desk.error_of(data);
  CHECK(error.find("m.jsonl:1:1: chat template chatml has no place for tool definitions") !=
        std::string::npos);
  CHECK(error.find("tools: ignore") != std::string::npos);
  data.train[0].tools = recipe::Tools::ignore;
  CHECK(desk.open(data).reports[0].documents == 1);
}

TEST_CASE("rows: without a trained token a row is counted and named, and alone it is an error") {
  const Desk desk;
  // Limit 8: of A only prompt is left; B is 2 + 1 + the end.
  const std::string a = completion("123456789", "x"), b = completion("12", "x");
  recipe::Data data = of({source(desk.write("a.jsonl", a + b), recipe::Format::completion)}, 8);
  data.overlong = recipe::Overlong::truncate;
  const DataSets both = desk.open(data);
  CHECK(both.reports[0].documents == 1);
  CHECK(both.reports[0].untrained == 1);
  REQUIRE(both.reports[0].examples.size() == 1);
  CHECK(both.reports[0].examples[0].find(
            "a.jsonl:1: cut at data.sequence_length, no trained token is left") != std::string::npos);
  data.train[0].path = desk.write("b.jsonl", a);
  CHECK(desk.error_of(data).find("has no row with a trained token: 1 rows in") != std::string::npos);
  // A conversation nobody answers trains nothing either.
  data = of({source(desk.write("c.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n"),
                    recipe::Format::messages)});
  CHECK(desk.error_of(data).find("1 without a token to train") != std::string::npos);
}

TEST_CASE("rows: exactly the limit fits; one more is left out, cut or refused, with counts") {
  const Desk desk;
  const std::string fits = completion("123456789", "abcdef"), over = completion("123456789", "abcdefg");
  recipe::Data data = of({source(desk.write("a.jsonl", fits + over), recipe::Format::completion)}, 16);
  DataSets sets = desk.open(data);
  CHECK(sets.train->rows() == 1);
  CHECK(sets.train->row(0).ids.size() == 16);
  CHECK(sets.reports[0].overlong == 1);
  CHECK(sets.reports[0].examples.at(0).find("a.jsonl:2: 17 tokens, over data.sequence_length") !=
        std::string::npos);
  data.overlong = recipe::Overlong::truncate;
  sets = desk.open(data);
  CHECK(sets.train->rows() == 2);
  CHECK(sets.reports[0].cut == 1);
  CHECK(std::ranges::all_of(ids_of(*sets.train), [](const auto& ids) { return ids.size() == 16; }));
  data.overlong = recipe::Overlong::error;
  CHECK(desk.error_of(data).find("1 row is longer than data.sequence_length = 16") != std::string::npos);
}

TEST_CASE("rows: the summary names a few of the rows left out, by line and id, and counts the others") {
  const Desk desk;
  std::string rows = completion("p", "q");
  for (int i = 0; i < 30; ++i) rows += completion("123456789", "abcdefg");
  std::ranges::replace(rows, '\n', ',');
  rows.back() = ']';
  const recipe::Data data = of({source(desk.write("a.json", "[" + rows), recipe::Format::completion)}, 16);
  const std::string text = join(summary_of(desk.open(data), data), "\n");
  INFO(text);
  CHECK(text.find("1 of 31 rows used (left out: 30 longer than data.sequence_length)") != std::string::npos);
  // All stand on one line, so that the line alone would name none of them.
  CHECK(text.find("a.json:1: 17 tokens, over data.sequence_length (a.json#1)") != std::string::npos);
  CHECK(text.find("(a.json#3)") != std::string::npos);
  CHECK(text.find("(a.json#4)") == std::string::npos);
  CHECK(text.find("left out: 27 more") != std::string::npos);
}

TEST_CASE("rows: the summary does not round the share of a source that hardly ever comes to nothing") {
  const Desk desk;
  recipe::Data data = of({source(desk.write("a.jsonl", completion("a", "b")), recipe::Format::completion),
                          source(desk.write("b.jsonl", completion("c", "d")), recipe::Format::completion)});
  data.train[0].weight = 999999;
  data.train[1].weight = 1;
  const std::string text = join(summary_of(desk.open(data), data), "\n");
  INFO(text);
  CHECK(text.find("mixture: 99.9999 % of the rows from a.jsonl") != std::string::npos);
  CHECK(text.find("mixture: 0.0001 % of the rows from b.jsonl, 2e-06 passes over it") != std::string::npos);
}

TEST_CASE("rows: `fields` renames, and a name the format does not have is refused with those it has") {
  const Desk desk;
  recipe::Data data = of({source(desk.write("q.jsonl", "{\"question\": \"ab\", \"answer\": \"7\"}\n"),
                                 recipe::Format::completion)});
  data.train[0].fields = {{"prompt", "question"}, {"completion", "answer"}};
  CHECK(desk.open(data).train->row(0).ids == std::vector<std::int32_t>{'a', 'b', '7', 257});
  data.train[0].fields = {{"question", "prompt"}};
  const std::string error = desk.error_of(data, Blame::usage);
  CHECK(error.find("format completion has no field 'question'") != std::string::npos);
  CHECK(error.find("prompt, completion") != std::string::npos);
  // All of them at once.
  data.train[0].fields = {{"question", "prompt"}, {"reply", "x"}};
  data.train.push_back(source(data.train[0].path, recipe::Format::messages));
  data.train[1].fields = {{"turns", "t"}};
  const std::string all = desk.error_of(data, Blame::usage);
  for (const char* name : {"'question'", "'reply'", "format messages has no field 'turns'"})
    CHECK(all.find(name) != std::string::npos);
}

TEST_CASE("rows: an empty source is an error that names it") {
  const Desk desk;
  recipe::Data data = of({source(desk.write("full.jsonl", completion("a", "b")), recipe::Format::completion),
                          source(desk.write("empty.jsonl", ""), recipe::Format::completion)});
  CHECK(desk.error_of(data).find("empty.jsonl") != std::string::npos);
}

TEST_CASE("rows: weights 3 to 1 give 6 and 2 of 8 samples; without weights every row comes once an epoch") {
  const Desk desk;
  std::string many, few;
  for (int i = 0; i < 9; ++i) many += completion("m", std::to_string(i));
  for (int i = 0; i < 3; ++i) few += completion("f", std::to_string(i));
  recipe::Data data = of({source(desk.write("many.jsonl", many), recipe::Format::completion),
                          source(desk.write("few.jsonl", few), recipe::Format::completion)});
  data.packing = false;
  const DataSets even = desk.open(data);
  REQUIRE(even.train->rows() == 12);
  for (const std::uint64_t seed : {1u, 2u}) {
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::set<std::string> seen;
      for (int i = 0; i < 12; ++i) seen.insert(even.train->sample(epoch * 12 + i, seed).id);
      CHECK(seen.size() == 12);
    }
  }
  data.train[0].weight = 3;
  data.train[1].weight = 1;
  const DataSets weighted = desk.open(data);
  std::map<std::size_t, int> counts;
  std::set<std::string> few_ids;
  for (int i = 0; i < 8; ++i) ++counts[weighted.train->place_of_sample(i, 1).source];
  CHECK(counts == std::map<std::size_t, int>{{0, 6}, {1, 2}});
  // Twelve samples are three of the short source: each of its rows once, then again in another order.
  for (int i = 0; i < 12; ++i) {
    const Row row = weighted.train->sample(i, 1);
    if (row.id.starts_with("few")) CHECK(few_ids.insert(row.id).second);
  }
  CHECK(few_ids.size() == 3);
  const std::vector<std::string> lines = summary_of(weighted, data);
  const auto says = [&](const std::string& what) {
    return std::ranges::any_of(lines,
                               [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  CHECK(says("mixture: 75.0 % of the rows from many.jsonl, 1.00 passes over it in an epoch of 12 rows"));
  CHECK(says("mixture: 25.0 % of the rows from few.jsonl, 1.00 passes"));
}

TEST_CASE("rows: validation takes its share of the rows, none is in both, and bad rows are told once") {
  const Desk desk;
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += completion("p", std::to_string(i));
  recipe::Data data = of({source(desk.write("a.jsonl", rows + "oops\n"), recipe::Format::completion)});
  data.packing = false;
  data.validation.fraction = 0.1;
  data.bad_rows = recipe::BadRows::skip;
  data.max_bad_rows = 1;
  const DataSets sets = desk.open(data);
  CHECK(sets.train->rows() == 90);
  CHECK(sets.validation->rows() == 10);
  std::set<std::string> ids;
  for (std::int64_t r = 0; r < 90; ++r) ids.insert(sets.train->row(r).id);
  for (std::int64_t r = 0; r < 10; ++r) ids.insert(sets.validation->row(r).id);
  CHECK(ids.size() == 100);
}

TEST_CASE("rows: chunks made by several ranks in any order, or after a kill, are those one rank makes") {
  const Desk desk;
  // Three chunks' worth of rows, about 40 MiB.
  std::string rows;
  const std::string filler(20000, 'x');
  for (int i = 0; rows.size() < (std::size_t{40} << 20); ++i) rows += completion(cat("p", i), filler);
  recipe::Data data = of({source(desk.write("big.jsonl", rows), recipe::Format::completion)}, 32768);
  desk.open(data);
  std::map<std::string, std::string> alone;
  for (const fs::path& file : desk.cached()) alone[file.filename().string()] = test::read_file(file);
  REQUIRE(alone.size() == 3);
  for (const int ranks : {2, 3, 5}) {
    fs::remove_all(desk.cache());
    for (int rank = ranks - 1; rank >= 0; --rank) prepare_data(data, desk.rendering(), {rank, ranks, false});
    std::map<std::string, std::string> shared;
    for (const fs::path& file : desk.cached()) shared[file.filename().string()] = test::read_file(file);
    CHECK(shared == alone);
  }
  // A kill leaves finished chunks and parts under temporary names.
  const fs::path lost = desk.cached().at(1);
  const auto kept = fs::last_write_time(desk.cached().at(0));
  fs::rename(lost, lost.string() + ".123.partial");
  const DataSets sets = desk.open(data);
  CHECK(fs::last_write_time(desk.cached().at(0)) == kept);
  CHECK(test::read_file(lost) == alone[lost.filename().string()]);
  CHECK(sets.reports[0].rows == sets.reports[0].documents);
  // The part may still be written by somebody; once it is old, nobody does.
  const fs::path part = lost.string() + ".123.partial";
  CHECK(fs::exists(part));
  fs::last_write_time(part, fs::file_time_type::clock::now() - std::chrono::hours(2));
  desk.open(data);
  CHECK_FALSE(fs::exists(part));
  CHECK(desk.cached().size() == 3);
}

TEST_CASE("rows: told to stop, preparation ends at once, keeps whole chunks and leaves no part of one") {
  const Desk desk;
  std::string rows;
  const std::string filler(20000, 'x');
  int count = 0;
  for (; rows.size() < (std::size_t{40} << 20); ++count) rows += completion(cat("p", count), filler);
  recipe::Data data = of({source(desk.write("big.jsonl", rows), recipe::Format::completion)}, 32768);
  int asked = 0;
  CHECK_FALSE(
      prepare_data(data, desk.rendering(), {.speaks = false, .stops = [&] { return ++asked > count / 2; }})
          .has_value());
  CHECK(asked <= count / 2 + 2);
  CHECK(desk.cached().size() == 1);
  const auto kept = fs::last_write_time(desk.cached().at(0));
  CHECK(desk.open(data).reports[0].rows == count);
  CHECK(desk.cached().size() == 3);
  CHECK(fs::last_write_time(desk.cached().at(0)) == kept);
  // Where nothing is left to do, there is nothing to stop.
  CHECK(prepare_data(data, desk.rendering(), {.speaks = false, .stops = [] { return true; }}).has_value());
}

TEST_CASE("rows: a file that changes while it is read is an error that names it, and nothing of it is kept") {
  for (const bool raw : {false, true}) {
    const Desk desk;
    const std::string first = raw ? "some text\n" : completion("p", "q"),
                      path = desk.write(raw ? "a.txt" : "a.jsonl", first);
    const recipe::Data data = of({source(path, raw ? recipe::Format::text : recipe::Format::completion)});
    const auto grows = [&] {
      std::ofstream(path, std::ios::app) << first;
      return false;
    };
    std::string what = "no error";
    try {
      prepare_data(data, desk.rendering(), {.speaks = false, .stops = grows});
    } catch (const Error& e) {
      what = e.what();
      CHECK(e.blame() == Blame::data);
    }
    INFO(what);
    CHECK(what.find(path + " changed while it was read") != std::string::npos);
    CHECK(desk.cached().empty());
    // The next run reads what is there now.
    const DataSets sets = desk.open(data);
    CHECK(sets.reports[0].tokens == (raw ? 2 * 10 + 1 : 2 * 3));
  }
}

// Files of a folder that are mapped into memory now.
std::int64_t mapped_from(const std::string& folder) {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(folder) != std::string::npos ? 1 : 0;
  return count;
}

TEST_CASE("text: of a folder's files only those of one chunk are held, and small ones are never mapped") {
  const Desk desk;
  // 40 files of 1 MiB are three chunks of 16 MiB.
  for (int i = 0; i < 40; ++i) desk.write(cat("large/", i, ".txt"), std::string(std::size_t{1} << 20, 'x'));
  for (int i = 0; i < 200; ++i) desk.write(cat("small/", i, ".txt"), "some text\n");
  for (const auto& [name, most] : {std::pair{"large", 18}, {"small", 0}}) {
    const std::string folder = fs::path(desk.write(cat(name, "/note"), "")).parent_path().string();
    std::int64_t held = 0, asked = 0;
    prepare_data(of({source(folder, recipe::Format::text)}), desk.rendering(),
                 {.speaks = false, .stops = [&] {
                    ++asked;
                    held = std::max(held, mapped_from(folder + "/"));
                    return false;
                  }});
    CAPTURE(name);
    CHECK(asked >= 40);
    CHECK(held <= most);
  }
}

TEST_CASE("rows: a source too small for its part of the validation only trains, and alone it is an error") {
  const Desk desk;
  std::string many;
  for (int i = 0; i < 100; ++i) many += completion("m", std::to_string(i));
  recipe::Data data = of({source(desk.write("many.jsonl", many), recipe::Format::completion),
                          source(desk.write("few.jsonl", completion("f", "1") + completion("f", "2")),
                                 recipe::Format::completion)});
  data.packing = false;
  data.validation.fraction = 0.1;
  const DataSets sets = desk.open(data);
  CHECK(sets.train->rows() == 90 + 2);
  CHECK(sets.validation->rows() == 10);
  const std::vector<std::string> lines = summary_of(sets, data);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.starts_with("validation few.jsonl: 0 of 2 rows used (left out: 2 for training)");
  }));
  data.train.erase(data.train.begin());
  const std::string error = desk.error_of(data);
  INFO(error);
  CHECK(error.find("the validation data has no row with a trained token: 2 rows in") != std::string::npos);
  CHECK(error.find("raise data.validation.fraction") != std::string::npos);
  CHECK(error.find("nothing to train on") == std::string::npos);
  // The other way round there is nothing to train on.
  data.validation.fraction = 0.99;
  const std::string none = desk.error_of(data);
  CHECK(none.find("the training data has no row with a trained token: 2 rows in") != std::string::npos);
  CHECK(none.find("lower data.validation.fraction") != std::string::npos);
}

TEST_CASE("rows: whatever decides the ids of rows makes another cache") {
  const Desk desk;
  const std::string path = desk.write("a.jsonl",
                                      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                                      "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": "
                                      "\"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n");
  const auto bytes = text::byte_tokenizer();
  std::set<std::vector<std::int32_t>> seen;
  const auto open_with = [&](const text::ChatOptions& options, recipe::TrainOn train_on) {
    const text::ChatTemplate chat(options, *bytes);
    recipe::Data data = of({source(path, recipe::Format::messages)}, 1024);
    data.train_on = train_on;
    const Row row = open_data(data, {bytes.get(), &chat, nullptr, 264}).train->row(0);
    std::vector<std::int32_t> all = row.ids;
    all.insert(all.end(), row.labels.begin(), row.labels.end());
    return seen.insert(all).second;
  };
  using enum recipe::ChatTemplate;
  for (const auto form : {chatml, alpaca, vicuna})
    for (const bool add_bos : {false, true})
      for (const std::string system : {"", "be kind"})
        for (const auto train_on : {recipe::TrainOn::all_answers, recipe::TrainOn::last_answer}) {
          CAPTURE(static_cast<int>(form));
          CAPTURE(add_bos);
          CAPTURE(system);
          CHECK(open_with({form, system, add_bos}, train_on));
        }
  CHECK(seen.size() == 3 * 2 * 2 * 2);
}

TEST_CASE("rows: two files of one name keep apart in ids; gzip, arrays and lines give the same ids") {
  const Desk desk;
  const std::string row = "{\"prompt\": \"a\", \"completion\": \"b\"}";
  const DataSets sets = desk.open(
      of({source(desk.write("x/a.jsonl", row), recipe::Format::completion),
          source(desk.write("y/a.jsonl", "[" + row + ",\n" + row + "]"), recipe::Format::completion)}));
  std::set<std::string> ids;
  for (std::int64_t r = 0; r < sets.train->rows(); ++r)
    for (const std::string& id : sets.train->row(r).sources) CHECK(ids.insert(id).second);
  CHECK(ids.size() == 3);
}

TEST_CASE("rows: raw text in JSON rows has the begin and end tokens of raw text") {
  const Desk desk;
  recipe::Data data = of(
      {source(desk.write("t.jsonl", "{\"text\": \"Hi\"}\n{\"text\": \"<eos>\"}\n"), recipe::Format::text)});
  data.packing = false;
  const DataSets sets = desk.open(data);
  CHECK(ids_of(*sets.train) ==
        std::vector<std::vector<std::int32_t>>{{'H', 'i', 257}, {'<', 'e', 'o', 's', '>', 257}});
  CHECK(sets.train->row(0).labels == sets.train->row(0).ids);
}

}  // namespace
}  // namespace zt::data
