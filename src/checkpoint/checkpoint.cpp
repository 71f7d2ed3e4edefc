#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/descriptor.h"
#include "checkpoint/digests.h"
#include "checkpoint/step_folders.h"
#include "exchange/words.h"

namespace zt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxManifest = std::int64_t{64} << 20;
constexpr std::size_t kMaxOpenFiles = 8;
constexpr std::int64_t kMaxTransfer = std::int64_t{1} << 30;
constexpr auto kDamaged = "the checkpoint is damaged; use an older one";

// What a person may have meant instead of a folder without a manifest.
std::string where_to_look(const fs::path& folder) {
  for (const fs::path& place : {folder, folder / "checkpoints", folder.parent_path()}) {
    std::vector<std::string> whole;
    try {
      for (const StepFolder& found : step_folders(place)) {
        if (found.phase == Phase::whole && found.path != folder)
          whole.push_back(found.path.filename().string());
      }
    } catch (const Error&) {
      continue;
    }
    if (!whole.empty()) return cat(place.string(), " holds ", join(whole, ", "));
  }
  return "name a folder such as OUTPUT_DIR/checkpoints/step-00000100";
}

// Whether the file, or a folder on the way to it, is a link. The checkpoint's folder itself may be one.
bool leads_away(const fs::path& folder, const fs::path& name) {
  fs::path at = folder;
  std::error_code unknown;
  return std::any_of(name.begin(), name.end(), [&](const fs::path& part) {
    at /= part;
    return fs::is_symlink(fs::symlink_status(at, unknown));
  });
}

void require_manifest(const fs::path& folder) {
  std::error_code unknown;
  if (leads_away(folder, kManifestFile))
    throw Error(Blame::model, cat((folder / kManifestFile).string(), " is a link"), kDamaged);
  if (fs::is_regular_file(folder / kManifestFile, unknown)) return;
  const char* const why = fs::is_directory(folder, unknown) ? " is no checkpoint: it has no manifest.json"
                          : fs::exists(folder, unknown)     ? " is no checkpoint: it is not a folder"
                                                            : " does not exist";
  throw Error(Blame::model, cat(folder.string(), why), where_to_look(folder));
}

void require_files(const fs::path& folder, const Manifest& manifest) {
  exchange::Faults faults;
  for (const auto& [name, file] : manifest.files) {
    std::error_code failed;
    const fs::path path = folder / name;
    if (leads_away(folder, name)) {
      faults.add(cat(name, " is a link or lies behind one; a checkpoint's files are its own"));
    } else if (!fs::is_regular_file(path, failed)) {
      faults.add(cat(name, " is missing"));
    } else if (const auto bytes = fs::file_size(path, failed); failed || std::int64_t(bytes) != file.bytes) {
      faults.add(cat(name, " has ", bytes, " bytes, was written with ", file.bytes));
    }
  }
  faults.throw_if_any(cat("checkpoint ", folder.string(), " is not whole"), kDamaged);
}

void read_at(const Descriptor& file, const fs::path& path, std::int64_t offset, char* out,
             std::int64_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::pread(file.raw(), out, std::size_t(std::min(bytes, kMaxTransfer)), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) system_error(Blame::machine, "read", path);
    if (n == 0)
      throw Error(Blame::model, cat(path.string(), " ends at byte ", offset, "; it was longer"), kDamaged);
    offset += n;
    out += n;
    bytes -= n;
  }
}

// A piece of one tensor and kind as its file holds it, for naming.
struct Placed {
  Region region;
  std::string dataset, digest;
};

std::vector<Placed> datasets_of(const Manifest& manifest, int rank) {
  std::vector<Placed> out;
  for (const auto& [tensor, stored] : manifest.tensors) {
    for (const Kind kind : kKinds) {
      for (const StoredPiece& p : stored.of(kind)) {
        if (p.rank == rank)
          out.push_back({{p.offset, p.offset + p.count * 4}, dataset_name(tensor, kind), p.digest});
      }
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Placed& a, const Placed& b) { return a.region.begin < b.region.begin; });
  return out;
}

// Which file it is decides which datasets lie in it; none in those that are no rank's.
std::vector<Placed> datasets_of(const Manifest& manifest, const std::string& file) {
  for (int rank = 0; rank < manifest.state.ranks; ++rank) {
    if (file == rank_file_name(rank, manifest.state.ranks)) return datasets_of(manifest, rank);
  }
  return {};
}

void verify_file(const fs::path& path, const StoredFile& stored, const std::vector<Placed>& datasets,
                 std::vector<std::string>& faults) {
  std::vector<Region> regions;
  for (const Placed& placed : datasets) regions.push_back(placed.region);
  const FileDigests digests = digests_of_file(path, regions, Blame::model);
  if (digests.bytes == stored.bytes && digests.whole == stored.digest) return;
  const std::string file = path.filename().string();
  const std::size_t before = faults.size();
  if (digests.bytes != stored.bytes)
    faults.push_back(cat(file, " has ", digests.bytes, " bytes, was written with ", stored.bytes));
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (digests.regions[i] != datasets[i].digest)
      faults.push_back(cat(file, ": dataset ", datasets[i].dataset, " differs from what was written"));
  }
  if (faults.size() == before)
    faults.push_back(cat(file, datasets.empty()
                                   ? " differs from what was written"
                                   : " differs from what was written, outside its datasets' values"));
}

// What `stored` and `needed` kinds of one tensor differ in.
void compare(const std::string& tensor, const StoredTensor& stored, const Need& need,
             exchange::Faults& faults) {
  if (stored.shape != need.shape)
    faults.add(cat(tensor, " has shape ", exchange::text_of(stored.shape), ", needed is ",
                   exchange::text_of(need.shape)));
  for (const Kind kind : kKinds) {
    const bool is_stored = !stored.of(kind).empty();
    const bool is_needed = std::find(need.kinds.begin(), need.kinds.end(), kind) != need.kinds.end();
    if (is_stored && !is_needed)
      faults.add(cat(tensor, " has a ", name(kind), " that nothing uses: is it frozen now?"));
    if (is_needed && !is_stored) faults.add(cat(tensor, " has no ", name(kind), ": was it frozen then?"));
  }
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& folder) {
  require_manifest(folder);
  const fs::path file = folder / kManifestFile;
  Checkpoint out;
  out.folder_ = folder;
  out.manifest_ = manifest_from_text(read_text_file(file, Blame::model, kMaxManifest), file.string());
  require_files(folder, out.manifest_);
  return out;
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, file] : manifest_.files) sum += file.bytes;
  return sum;
}

void Checkpoint::check_against(std::span<const Need> needs) const {
  exchange::Faults faults;
  std::set<std::string> needed;
  for (const Need& need : needs) {
    needed.insert(need.tensor);
    const auto found = manifest_.tensors.find(need.tensor);
    if (found == manifest_.tensors.end()) {
      faults.add(cat(need.tensor, " ", exchange::text_of(need.shape), " is not in it"));
    } else {
      compare(need.tensor, found->second, need, faults);
    }
  }
  for (const auto& [tensor, stored] : manifest_.tensors) {
    if (!needed.contains(tensor))
      faults.add(cat(tensor, " ", exchange::text_of(stored.shape), " is in it, and nothing uses it"));
  }
  faults.throw_if_any(cat("checkpoint ", folder_.string(), " does not fit this model"),
                      "was it written by a run with the same model and the same trainable tensors?");
}

const Descriptor& Checkpoint::file_of(int rank) const {
  auto found =
      std::find_if(open_.begin(), open_.end(), [&](const OpenFile& file) { return file.rank == rank; });
  if (found == open_.end()) {
    if (open_.size() >= kMaxOpenFiles) open_.pop_back();
    const fs::path path = folder_ / rank_file_name(rank, manifest_.state.ranks);
    found = open_.insert(open_.begin(), {rank, open_to_read(path, Blame::model)});
  }
  open_.splice(open_.begin(), open_, found);
  return open_.front().descriptor;
}

void Checkpoint::read_from(const StoredPiece& piece, std::int64_t first, std::span<float> out,
                           const std::string& dataset) const {
  const std::string file = rank_file_name(piece.rank, manifest_.state.ranks);
  read_at(file_of(piece.rank), folder_ / file, piece.offset + (first - piece.first) * 4,
          reinterpret_cast<char*>(out.data()), std::int64_t(out.size_bytes()));
  const bool whole = std::int64_t(out.size()) == piece.count;
  if (whole && digest_of({reinterpret_cast<const char*>(out.data()), out.size_bytes()}) != piece.digest)
    throw Error(Blame::model,
                cat((folder_ / file).string(), ": dataset ", dataset, " differs from what was written"),
                kDamaged);
}

void Checkpoint::read(const std::string& tensor, Kind kind, std::int64_t first, std::span<float> out) const {
  const auto found = manifest_.tensors.find(tensor);
  const std::int64_t end = first + std::int64_t(out.size());
  if (found == manifest_.tensors.end() || found->second.of(kind).empty() || first < 0 ||
      end > exchange::elements_of(found->second.shape))
    throw Error(Blame::bug, cat("elements [", first, ", ", end, ") of ", dataset_name(tensor, kind),
                                " are not in checkpoint ", folder_.string()));
  const std::vector<StoredPiece>& pieces = found->second.of(kind);
  // The pieces tile the tensor in order: the first wanted one is the last that begins at or before `first`.
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), first,
                                [](std::int64_t at, const StoredPiece& p) { return at < p.first; });
  for (--piece; first < end; ++piece) {
    const std::int64_t count = std::min(end, piece->first + piece->count) - first;
    read_from(*piece, first, out.first(std::size_t(count)), dataset_name(tensor, kind));
    out = out.subspan(std::size_t(count));
    first += count;
  }
}

std::vector<std::string> Checkpoint::verify(int part, int parts) const {
  std::vector<std::string> faults;
  int number = 0;
  for (const auto& [name, file] : manifest_.files) {
    if (number++ % parts != part) continue;
    try {
      verify_file(folder_ / name, file, datasets_of(manifest_, name), faults);
    } catch (const Error& e) {
      faults.push_back(e.problem());
    }
  }
  return faults;
}

std::map<std::string, std::string> Checkpoint::companions() const {
  std::map<std::string, std::string> out;
  const std::string prefix = kCompanions;
  for (const auto& [name, file] : manifest_.files) {
    if (!starts_with(name, prefix)) continue;
    std::string bytes = read_text_file(folder_ / name, Blame::model, file.bytes);
    if (digest_of(bytes) != file.digest)
      throw Error(Blame::model, cat((folder_ / name).string(), " differs from what was written"), kDamaged);
    out.emplace(name.substr(prefix.size()), std::move(bytes));
  }
  return out;
}

static Listed examine(const StepFolder& found) {
  Listed out{found.path, found.step};
  switch (found.phase) {
    case Phase::partial: out.fault = "unfinished: its save was stopped"; return out;
    case Phase::deleting: out.fault = "its removal was stopped"; return out;
    case Phase::whole: break;
  }
  try {
    const Checkpoint checkpoint = Checkpoint::open(found.path);
    out.bytes = checkpoint.bytes();
    if (checkpoint.state().step == found.step) {
      out.state = checkpoint.state();
    } else {
      out.fault = cat("its manifest is of step ", checkpoint.state().step);
    }
  } catch (const Error& e) {
    out.fault = e.problem();
  }
  return out;
}

std::vector<Listed> list(const fs::path& folder) {
  std::vector<Listed> out;
  for (const StepFolder& found : step_folders(folder)) out.push_back(examine(found));
  return out;
}

}  // namespace zt::checkpoint
