#include "train/same_everywhere.h"

#include <array>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/agreement.h"

namespace zt::train {

void require_same_everywhere(comm::Communicator& comm, const std::string& text, Blame blame,
                             const std::string& what, const std::string& hint) {
  using Digest = std::array<char, 32>;
  Digest mine{};
  digest_of(text).copy(mine.data(), mine.size());
  std::vector<Digest> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<Digest>({&mine, 1}, all);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto shown = [](const Digest& digest) { return std::string(digest.data(), digest.size()); };
    throw checkpoint::AgreedError(blame,
                                  cat("ranks 0 and ", rank, " ", what, " (fingerprints ", shown(all[0]),
                                      " and ", shown(all[rank]), ")"),
                                  hint);
  }
}

}  // namespace zt::train
