// What preparing instruction data takes: megabytes a second of a large JSON Lines file, the process's peak memory beside the
// bound of 500 MB, and the time until one malformed row among a million small ones is told.
//
//   build/release/bench/preparation [--megabytes 2048] [--tokenizer FOLDER] [--folder /tmp]
//
// Without --tokenizer ids are bytes. The token files go to a folder that is deleted again.
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "common.h"
#include "data/open_data.h"

namespace zt::bench {
namespace {
namespace fs = std::filesystem;

constexpr const char* kWords[] = {
    "add",  "the",   "two",   "numbers", "and",    "say",   "which", "of",     "them",     "is",    "larger",
    "then", "write", "a",     "short",   "story",  "about", "river", "that",   "never",    "found", "its",
    "way",  "home",  "until", "some",    "people", "who",   "lived", "nearby", "followed", "it"};

std::string words(const RandomStream& random, std::uint64_t& at, std::uint64_t least, std::uint64_t most) {
  std::string out;
  for (std::uint64_t n = least + random.u64(at++) % (most - least); n > 0; --n)
    out += cat(out.empty() ? "" : " ", kWords[random.u64(at++) % std::size(kWords)]);
  return out;
}

void write_rows(const fs::path& path, std::int64_t bytes) {
  const RandomStream random{1, Purpose::sampling, 0, 0};
  std::ofstream out(path);
  std::uint64_t at = 0;
  for (std::int64_t written = 0; written < bytes;) {
    const std::string row = cat(R"({"instruction": ")", words(random, at, 5, 40),
                                R"(", "input": "", "output": ")", words(random, at, 5, 120), "\"}\n");
    out << row;
    written += static_cast<std::int64_t>(row.size());
  }
}

void write_million(const fs::path& path) {
  std::ofstream out(path);
  for (int i = 0; i < 1'000'000; ++i)
    out << (i == 777'776
                ? std::string("{\"instruction\": \"a\", \"output\": nul}\n")
                : cat(R"({"instruction": "What comes after )", i, R"(?", "output": ")", i + 1, "\"}\n"));
}

recipe::Data data_of(const fs::path& path) {
  recipe::Data data;
  data.sequence_length = 2048;
  recipe::Source source;
  source.path = path.string();
  source.format = recipe::Format::alpaca;
  data.train.push_back(source);
  return data;
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

int run(const Arguments& arguments) {
  const fs::path folder =
      fs::path(arguments.text("--folder", fs::temp_directory_path())) / "zerotrain-preparation";
  fs::create_directories(folder);
  ::setenv("ZEROTRAIN_CACHE", (folder / "cache").c_str(), 1);
  const std::string name = arguments.text("--tokenizer", "");
  const auto tokenizer = name.empty() ? text::byte_tokenizer() : text::load_tokenizer(name);
  const text::ChatTemplate chat({recipe::ChatTemplate::alpaca, "", false}, *tokenizer);
  const data::Rendering rendering{tokenizer.get(), &chat, nullptr, tokenizer->vocabulary()};

  write_million(folder / "million.jsonl");
  std::string told;
  const double seconds = seconds_of([&] {
    try {
      data::open_data(data_of(folder / "million.jsonl"), rendering);
    } catch (const Error& e) {
      told = e.problem();
    }
  });
  fmt::print("a malformed row among a million: {:.1f} s, peak {:.0f} MB\n{}\n", seconds, peak_megabytes(),
             told);

  const std::int64_t bytes = arguments.number("--megabytes", 2048) << 20;
  write_rows(folder / "big.jsonl", bytes);
  data::DataSets sets;
  const double preparing =
      seconds_of([&] { data::prepare_data(data_of(folder / "big.jsonl"), rendering, {}); });
  const double opening =
      seconds_of([&] { sets = data::open_data(data_of(folder / "big.jsonl"), rendering); });
  fmt::print(
      "{} MiB: {:.0f} s to tokenize ({:.1f} MB/s), {:.1f} s to check and pack, peak {:.0f} MB of 500\n",
      bytes >> 20, preparing, static_cast<double>(bytes) / 1e6 / preparing, opening, peak_megabytes());
  fmt::print("{} rows of data, {} tokens, {} rows of 2048, {:.2f} % full\n", sets.reports[0].rows,
             sets.reports[0].tokens, sets.reports[0].packed_rows, 100 * sets.reports[0].efficiency());
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace zt::bench

int main(int argc, char** argv) { return zt::bench::told(argc, argv, zt::bench::run); }
