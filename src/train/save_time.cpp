#include "train/save_time.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "comm/agreement.h"
#include "measure/calibrate.h"

namespace zt::train {

double try_save_seconds(const std::filesystem::path& folder, std::int64_t bytes, comm::Communicator& comm) {
  constexpr std::int64_t kTriedBytes = 16 << 20;
  // Of a save beside its bytes: agreeing, folders, the manifest.
  constexpr double kOverhead = 1;
  double mine = 0;
  comm::agree(comm, comm::attempt([&] {
                try {
                  mine = kOverhead +
                         static_cast<double>(bytes) / measure::measure_disk(folder, kTriedBytes).write;
                } catch (const Error& e) {
                  throw Error(e.blame(), e.problem(),
                              "the run has a time limit, so it tries out what a save takes: make the folder "
                              "writable, with room for the checkpoints");
                }
              }));
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<double>({&mine, 1}, all);
  return *std::ranges::max_element(all);
}

}  // namespace zt::train
