#include "checkpoint/save.h"

#include <sys/statvfs.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/descriptor.h"
#include "checkpoint/hdf5.h"
#include "checkpoint/model_file.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/step_folders.h"
#include "comm/agreement.h"

namespace zt::checkpoint {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;

// Beside the data: HDF5's bookkeeping, the manifest, the tokenizer, and ends of pages (a hundredth, see below).
constexpr std::int64_t kSlackPerRank = std::int64_t{1} << 20;

void refuse_others(const Target& target) {
  const fs::path there = path_of(target.folder, target.step, Phase::whole);
  std::error_code unknown;
  if (!fs::exists(there, unknown)) return;
  std::optional<std::string> owner;
  (void)comm::attempt([&] { owner = Checkpoint::open(there).state().run_id; });
  if (owner && *owner != target.run_id)
    throw Error(Blame::usage,
                cat(there.string(), " is a checkpoint of another run (", *owner, "); it is kept"),
                "choose a new run.output_dir, or resume that run");
}

// What a link leads to belongs to somebody else; unfinished saves and old checkpoints there are not ours to remove.
void refuse_link(const fs::path& folder) {
  std::error_code unknown;
  if (fs::is_symlink(fs::symlink_status(folder, unknown)))
    throw Error(Blame::usage,
                cat(folder.string(), " is a link; checkpoints are saved in a run's own folder only"),
                "let run.output_dir name a folder on the other disk, or make the whole run folder a link");
}

void prepare(const Target& target) {
  refuse_link(target.folder);
  std::error_code failed;
  fs::create_directories(target.folder, failed);
  if (failed)
    throw Error(Blame::machine, cat("cannot make folder ", target.folder.string(), ": ", failed.message()),
                "is the run folder writable, and is there space on the disk?");
  refuse_others(target);
  remove_unfinished(target.folder);
  const fs::path partial = path_of(target.folder, target.step, Phase::partial);
  if (!fs::create_directory(partial, failed))
    throw Error(Blame::machine, cat("cannot make folder ", partial.string(), ": ", failed.message()),
                "is the run folder writable, and is there space on the disk?");
}

// Network file systems may show a new folder to other nodes a moment later.
void wait_for(const fs::path& folder) {
  constexpr int kTries = 50;
  for (int i = 0; i < kTries; ++i) {
    std::error_code unknown;
    if (fs::is_directory(folder, unknown)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error(Blame::machine, cat("folder ", folder.string(), ", made by rank 0, is not seen here"),
              "run.output_dir must be on a file system that all nodes share");
}

void require_space(const fs::path& folder, std::int64_t bytes, int ranks) {
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0) system_error(Blame::machine, "examine the disk of", folder);
  const std::int64_t need = bytes + bytes / 100 + ranks * kSlackPerRank;
  const auto free = __int128(disk.f_bavail) * disk.f_frsize;
  if (free < need)
    throw Error(
        Blame::machine,
        cat("the disk of ", folder.parent_path().string(), " is too full for a checkpoint: it takes ",
            human_bytes(need), " (", with_commas(need), " bytes) over ", ranks,
            ranks == 1 ? " rank" : " ranks", ", and ", human_bytes(std::int64_t(free)), " (",
            with_commas(std::int64_t(free)), " bytes) are free"),
        "free space, or save less often or fewer (checkpoint.every_steps, checkpoint.keep_last); older "
        "checkpoints are untouched");
}

// Every rank's text on rank 0, one after the other; elsewhere only room for one is taken.
std::vector<std::string> gather(Communicator& communicator, const std::string& mine) {
  const std::int64_t size = std::int64_t(mine.size());
  std::vector<std::int64_t> sizes(std::size_t(communicator.size()));
  communicator.exchange<std::int64_t>({&size, 1}, sizes);
  std::vector<std::string> out;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    std::string text =
        rank == communicator.rank() ? mine : std::string(std::size_t(sizes[std::size_t(rank)]), '\0');
    communicator.broadcast(text.data(), std::int64_t(text.size()), rank);
    if (communicator.rank() == 0) out.push_back(std::move(text));
  }
  return out;
}

// The ranks' parts as one list of tensors. Shapes that disagree end up in `faults`.
Manifest assemble(const std::vector<std::string>& records, const RunState& state,
                  std::vector<std::string>& faults) {
  Manifest manifest;
  manifest.state = state;
  for (int rank = 0; rank < int(records.size()); ++rank) {
    const RankRecord record = record_from_text(records[std::size_t(rank)]);
    manifest.files[rank_file_name(rank, int(records.size()))] = record.file;
    for (const RankRecord::Part& part : record.parts) {
      StoredTensor& tensor = manifest.tensors[part.tensor];
      if (tensor.shape.empty()) tensor.shape = part.shape;
      if (tensor.shape != part.shape)
        faults.push_back(cat(part.tensor, " has shape ", exchange::text_of(tensor.shape), " and on rank ",
                             rank, " ", exchange::text_of(part.shape)));
      tensor.of(part.kind).push_back(part.piece);
    }
  }
  for (auto& [name, tensor] : manifest.tensors) {
    for (auto& pieces : tensor.pieces)
      std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return manifest;
}

StoredFile stored_file(const fs::path& file) {
  return {std::int64_t(fs::file_size(file)), digest_of_file(file, Blame::machine)};
}

void write_companions(const fs::path& folder, const std::map<std::string, std::string>& companions,
                      Manifest& manifest) {
  if (companions.empty()) return;
  fs::create_directory(folder / kCompanions);
  for (const auto& [name, bytes] : companions) {
    if (!plain_name(name)) throw Error(Blame::bug, cat("a checkpoint can't hold a file of the name ", name));
    write_file(folder / kCompanions / name, bytes);
    manifest.files[kCompanions + name] = {std::int64_t(bytes.size()), digest_of(bytes)};
  }
}

void require_sound(const Manifest& manifest, std::vector<std::string> faults) {
  for (std::string& fault : faults_of(manifest)) faults.push_back(std::move(fault));
  Problems problems;
  for (std::size_t i = 0; i < std::min<std::size_t>(faults.size(), 20); ++i)
    problems.add(std::move(faults[i]));
  problems.throw_if_any(Blame::bug, "the ranks' pieces don't make up the model");
}

}  // namespace

struct Save::Inner {
  Target target;
  int rank = 0, ranks = 1;
  std::atomic<bool> written = false;
  std::optional<Error> failure;
  RankRecord record;

  fs::path partial() const { return path_of(target.folder, target.step, Phase::partial); }
  void drop_partial() const {
    std::error_code ignored;  // an error is under way already; the next save tries again
    if (rank == 0) fs::remove_all(partial(), ignored);
  }
  void finish(const std::vector<std::string>& records, const RunState& state,
              const std::map<std::string, std::string>& companions) const;
};

Save::Save(const Target& target, std::int64_t bytes, Communicator& communicator)
    : inner_(std::make_unique<Inner>()) {
  inner_->target = target;
  inner_->rank = communicator.rank();
  inner_->ranks = communicator.size();
  std::optional<Error> failure = comm::attempt([&] {
    if (target.step < 0 || bytes < 0)
      throw Error(Blame::bug, cat("a save of step ", target.step, " with ", bytes, " bytes"));
    hdf5::start();
    if (communicator.rank() == 0) prepare(target);
  });
  comm::agree(communicator, failure);
  std::vector<std::int64_t> all(std::size_t(communicator.size()));
  communicator.exchange<std::int64_t>({&bytes, 1}, all);
  std::int64_t total = 0;
  for (const std::int64_t one : all) total += one;
  failure = comm::attempt([&] {
    wait_for(inner_->partial());
    require_space(inner_->partial(), total, communicator.size());
  });
  try {
    comm::agree(communicator, failure);
  } catch (const Error&) {
    inner_->drop_partial();
    throw;
  }
}

Save::~Save() = default;
Save::Save(Save&&) noexcept = default;
Save& Save::operator=(Save&&) noexcept = default;

fs::path Save::folder() const { return path_of(inner_->target.folder, inner_->target.step, Phase::whole); }
bool Save::written() const noexcept { return inner_->written; }

void Save::write(std::span<const Piece> pieces) noexcept {
  inner_->failure = comm::attempt([&] {
    if (inner_->written) throw Error(Blame::bug, "a checkpoint was written twice");
    const std::string name = rank_file_name(inner_->rank, inner_->ranks);
    inner_->record = write_rank_file(inner_->partial() / name, inner_->rank, pieces);
  });
  inner_->written = true;
}

void Save::Inner::finish(const std::vector<std::string>& records, const RunState& state,
                         const std::map<std::string, std::string>& companions) const {
  std::vector<std::string> faults;
  if (state.step != target.step)
    faults.push_back(cat("the state is of step ", state.step, ", the save of step ", target.step));
  if (state.run_id != target.run_id)
    faults.push_back(cat("the state is of run ", state.run_id, ", the save of run ", target.run_id));
  if (state.ranks != ranks)
    faults.push_back(cat("the state is of ", state.ranks, " ranks, the save of ", ranks));
  Manifest manifest = assemble(records, state, faults);
  // Stands in until the file is there; whether the pieces fit must be known before they are mapped.
  manifest.files[kModelFile] = {0, std::string(32, '0')};
  require_sound(manifest, faults);
  write_model_file(partial() / kModelFile, manifest);
  manifest.files[kModelFile] = stored_file(partial() / kModelFile);
  write_companions(partial(), companions, manifest);
  // What couldn't be read again must not be written.
  const std::string text = to_text(manifest);
  (void)manifest_from_text(text, kManifestFile);
  write_file(partial() / kManifestFile, text);
  sync_folder(partial());
  make_whole(target.folder, target.step);
}

void Save::commit(Communicator& communicator, const RunState& state,
                  const std::map<std::string, std::string>& companions) {
  try {
    if (!inner_->written)
      inner_->failure = Error(Blame::bug, "a checkpoint was committed before it was written");
    comm::agree(communicator, inner_->failure);
    const std::vector<std::string> records = gather(communicator, to_text(inner_->record));
    comm::agree(communicator, communicator.rank() == 0
                                  ? comm::attempt([&] { inner_->finish(records, state, companions); })
                                  : std::nullopt);
  } catch (const Error&) {
    inner_->drop_partial();
    throw;
  }
}

std::vector<std::int64_t> retain(const fs::path& folder, const std::string& run_id, std::int64_t newest,
                                 int keep_last) {
  refuse_link(folder);
  std::vector<std::int64_t> others;
  for (const Listed& listed : list(folder)) {
    if (listed.good() && listed.state->run_id == run_id && listed.step != newest)
      others.push_back(listed.step);
  }
  const std::size_t keep = std::size_t(std::max(keep_last, 1) - 1);
  if (keep_last == 0 || others.size() <= keep) return {};
  others.resize(others.size() - keep);
  for (const std::int64_t step : others) remove_whole(folder, step);
  return others;
}

}  // namespace zt::checkpoint
