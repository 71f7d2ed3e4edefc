// Runs a fuzz target without libFuzzer, as a test of the ordinary build: on the files of its corpus, and with a number of
// seconds on random changes of them as well. Usage: replay_TARGET FOLDER [SECONDS [SEED]]
//
// While an input is tried it lies in ./replay_TARGET.input, which stays there when the program dies of it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

constexpr unsigned kMostSeconds = 30;  // for one input
constexpr std::size_t kMostBytes = 4096;

// A file that shows the input at hand to whoever comes after a crash.
class Shown {
 public:
  explicit Shown(const std::string& program)
      : path_(std::filesystem::path(program).filename().string() + ".input"),
        file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644)) {}
  ~Shown() {
    ::close(file_);
    ::unlink(path_.c_str());
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  void put(const std::string& input) const {
    if (::ftruncate(file_, static_cast<off_t>(input.size())) != 0 ||
        ::pwrite(file_, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()))
      std::fprintf(stderr, "the input can't be noted down in %s\n", path_.c_str());
  }

 private:
  std::string path_;
  int file_;
};

void run(const std::string& input, const Shown& shown) {
  shown.put(input);
  ::alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  ::alarm(0);
}

// What readers stumble over.
constexpr std::array<const char*, 24> kWords = {"\"",
                                                "{",
                                                "}",
                                                "[",
                                                "]",
                                                ":",
                                                ",",
                                                "\\u0000",
                                                "null",
                                                "-1",
                                                "0",
                                                "1e999",
                                                "\n",
                                                "../",
                                                "\xff",
                                                "\\ud8",
                                                "\xe2\x96",
                                                "\t",
                                                "&a ",
                                                "*a",
                                                "!!",
                                                "9223372036854775807",
                                                "18446744073709551616",
                                                "0.5"};

class Changes {
 public:
  Changes(const std::vector<std::string>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(input);
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    return input;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  std::string piece_of(const std::string& text) {
    const std::size_t at = below(text.size());
    return text.substr(at, 1 + below(std::min<std::size_t>(text.size() - at, 64)));
  }
  void change(std::string& input) {
    const std::size_t at = below(input.size());
    const auto insert = [&](const std::string& bytes) { input.insert(std::min(at, input.size()), bytes); };
    switch (below(8)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        return;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random_());
        return;
      case 2: input.erase(std::min(at, input.size()), 1 + below(16)); return;
      case 3: return insert(kWords[below(kWords.size())]);
      case 4: return insert(piece_of(corpus_[below(corpus_.size())]));
      case 5: return insert(piece_of(input));
      case 6: input.resize(at); return;
      case 7: {
        const std::string word = kWords[below(kWords.size())];
        input.replace(std::min(at, input.size()), word.size(), word);
        return;
      }
    }
  }
  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

std::vector<std::string> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> corpus;
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) return std::fprintf(stderr, "usage: %s FOLDER [SECONDS [SEED]]\n", argv[0]), 2;
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  const Shown shown(argv[0]);
  run("", shown);
  for (const std::string& input : corpus) run(input, shown);
  std::printf("%zu inputs\n", corpus.size());
  if (corpus.empty()) return 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device()();
  if (seconds <= 0) return 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Changes changes(corpus, seed);
  std::int64_t tried = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    run(changes.next(), shown);
    ++tried;
  }
  std::printf("%lld changed inputs\n", static_cast<long long>(tried));
  return 0;
}
