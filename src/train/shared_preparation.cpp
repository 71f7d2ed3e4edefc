#include "train/shared_preparation.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "data/token_file.h"

namespace zt::train {
namespace fs = std::filesystem;
namespace {

using HostName = std::array<char, 64>;

// A file of rank 0 that the others look for.
class Probe {
 public:
  explicit Probe(comm::Communicator& comm) : leads_(comm.rank() == 0) {
    std::array<std::uint32_t, 4> words{};
    std::random_device entropy;
    for (std::uint32_t& word : words) word = entropy();
    comm.broadcast(words.data(), sizeof words, 0);
    path_ = data::cache_folder() /
            fmt::format(".seen-{:08x}{:08x}{:08x}{:08x}", words[0], words[1], words[2], words[3]);
    if (leads_) {
      std::error_code failed;  // an unwritable folder is told when something is written for good
      fs::create_directories(path_.parent_path(), failed);
      std::ofstream(path_).put('\n');
    }
    comm.barrier();
  }
  ~Probe() {
    std::error_code ignored;
    if (leads_) fs::remove(path_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  bool seen() const {
    std::error_code failed;
    return fs::exists(path_, failed);
  }

 private:
  bool leads_;
  fs::path path_;
};

struct Answer {
  std::int32_t seen = 0;
  HostName host{};
};

}  // namespace

data::Share share_of_preparation(comm::Communicator& comm) {
  if (comm.size() == 1) return {};
  const Probe probe(comm);
  Answer mine;
  mine.seen = probe.seen() ? 1 : 0;
  mine.host = host_name_as<HostName>();
  std::vector<Answer> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<Answer>({&mine, 1}, all);
  data::Share share{0, 0, comm.rank() == 0};
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Answer& other = all[static_cast<std::size_t>(rank)];
    // Ranks that see rank 0's folder share it; each other node has one of its own.
    const bool together = mine.seen != 0 ? other.seen != 0 : other.seen == 0 && other.host == mine.host;
    share.index += together && rank < comm.rank() ? 1 : 0;
    share.count += together ? 1 : 0;
  }
  return share;
}

void WaitingLines::tick(Clock::time_point now) {
  if (since_ == Clock::time_point{}) since_ = last_ = now;
  if (!speaks_ || now - last_ < std::chrono::seconds(10)) return;
  last_ = now;
  log::info(cat("waiting for other ranks to finish preparing the data: ",
                human_seconds(std::chrono::duration<double>(now - since_).count())));
}

}  // namespace zt::train
