#include "checkpoint/rank_file.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/descriptor.h"
#include "checkpoint/digests.h"
#include "checkpoint/hdf5.h"

namespace zt::checkpoint {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "files are little-endian and are read as memory");

// Libraries, drivers and file systems have had limits at 2^31 bytes.
constexpr std::int64_t kMaxTransfer = (std::int64_t{1} << 30) / sizeof(float);

std::string text_of(const Piece& p) {
  return cat(name(p.kind), " of ", p.tensor, " ", exchange::text_of(p.shape), ", elements [", p.first, ", ",
             p.first + p.count, ")");
}

void check_piece(const Piece& p) {
  const auto elements = checked_elements(p.shape);
  if (!plain_name(p.tensor) || !elements || p.first < 0 || p.count < 0 || p.first > *elements ||
      p.count > *elements - p.first || (p.count > 0 && p.data == nullptr))
    throw Error(Blame::bug, cat("this is no piece of a tensor: ", text_of(p)));
}

std::string_view bytes_of(const Piece& p) {
  return {reinterpret_cast<const char*>(p.data), std::size_t(p.count) * sizeof(float)};
}

class RankFile {
 public:
  RankFile(const fs::path& path, int rank) : path_(path), rank_(rank), file_(path) {
    hdf5::write_attribute(file_.id(), "format", "zerotrain rank file", path_);
    hdf5::write_attribute(file_.id(), "version", 1, path_);
  }

  RankRecord::Part write(const Piece& piece) {
    const std::string dataset = dataset_name(piece.tensor, piece.kind), doing = "write " + dataset;
    hdf5::Handle group = group_of(piece.tensor);
    const hdf5::Handle space = hdf5::simple_space({hsize_t(piece.count)}, path_);
    const hdf5::Handle creation = creation_properties();
    hdf5::Handle set(H5Dcreate2(group.id(), name(piece.kind), H5T_IEEE_F32LE, space.id(), H5P_DEFAULT,
                                creation.id(), H5P_DEFAULT),
                     H5Dclose, doing, path_);
    const std::string digest = digest_of(bytes_of(piece));
    hdf5::write_attribute(set.id(), "first", piece.first, path_);
    hdf5::write_attribute(set.id(), "shape", piece.shape, path_);
    hdf5::write_attribute(set.id(), "digest", digest, path_);
    const haddr_t offset = H5Dget_offset(set.id());
    if (offset == HADDR_UNDEF) hdf5::fail(doing, path_);
    write_data(set, space, piece, doing);
    file_.check();
    set.close(doing, path_);
    group.close(doing, path_);
    return {piece.tensor,
            piece.shape,
            piece.kind,
            {rank_, piece.first, piece.count, std::int64_t(offset), digest}};
  }

  void close() { file_.close(); }

 private:
  hdf5::Handle group_of(const std::string& tensor) {
    const std::string doing = "make group " + tensor;
    if (groups_.insert(tensor).second)
      return hdf5::Handle(H5Gcreate2(file_.id(), tensor.c_str(), H5P_DEFAULT,
                                     hdf5::timeless(H5P_GROUP_CREATE, path_).id(), H5P_DEFAULT),
                          H5Gclose, doing, path_);
    return hdf5::Handle(H5Gopen2(file_.id(), tensor.c_str(), H5P_DEFAULT), H5Gclose, doing, path_);
  }

  hdf5::Handle creation_properties() const {
    hdf5::Handle creation = hdf5::timeless(H5P_DATASET_CREATE, path_);
    hdf5::check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), "describe a dataset", path_);
    // Its place in the file is known before the first byte, and nothing is written twice.
    hdf5::check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), "describe a dataset", path_);
    hdf5::check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "describe a dataset", path_);
    return creation;
  }

  void write_data(const hdf5::Handle& set, const hdf5::Handle& space, const Piece& piece,
                  const std::string& doing) const {
    for (std::int64_t done = 0; done < piece.count; done += kMaxTransfer) {
      const hsize_t start = hsize_t(done), count = hsize_t(std::min(kMaxTransfer, piece.count - done));
      hdf5::check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &start, nullptr, &count, nullptr), doing,
                  path_);
      const hdf5::Handle memory = hdf5::simple_space({count}, path_);
      hdf5::check(
          H5Dwrite(set.id(), H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT, piece.data + done),
          doing, path_);
    }
  }

  fs::path path_;
  int rank_;
  hdf5::NewFile file_;
  std::set<std::string> groups_;
};

std::vector<RankRecord::Part> write_all(const fs::path& path, int rank, std::span<const Piece> pieces) {
  const hdf5::Use use;
  std::set<std::pair<std::string, Kind>> seen;
  std::vector<RankRecord::Part> parts;
  RankFile file(path, rank);
  for (const Piece& piece : pieces) {
    check_piece(piece);
    if (piece.count == 0) continue;
    if (!seen.emplace(piece.tensor, piece.kind).second)
      throw Error(Blame::bug, cat("rank ", rank, " was given two pieces of one kind: ", text_of(piece)));
    parts.push_back(file.write(piece));
  }
  file.close();
  return parts;
}

// What a disk gives back is what a resume will read.
StoredFile read_back(const fs::path& path, const std::vector<RankRecord::Part>& parts) {
  std::vector<const RankRecord::Part*> in_order;
  for (const RankRecord::Part& part : parts) in_order.push_back(&part);
  std::sort(in_order.begin(), in_order.end(),
            [](auto* a, auto* b) { return a->piece.offset < b->piece.offset; });
  std::vector<Region> regions;
  for (const auto* part : in_order)
    regions.push_back({part->piece.offset, part->piece.offset + part->piece.count * 4});
  const FileDigests digests = digests_of_file(path, regions, Blame::machine);
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    if (digests.regions[i] != in_order[i]->piece.digest)
      throw Error(
          Blame::machine,
          cat(path.string(), ": ", dataset_name(in_order[i]->tensor, in_order[i]->kind),
              " reads back otherwise than it was written"),
          "the disk or the memory of this machine is faulty, or the data changed while they were saved");
  }
  return {digests.bytes, digests.whole};
}

}  // namespace

RankRecord write_rank_file(const fs::path& file, int rank, std::span<const Piece> pieces) {
  RankRecord record;
  record.parts = write_all(file, rank, pieces);
  sync_file(file);
  record.file = read_back(file, record.parts);
  return record;
}

std::string to_text(const RankRecord& record) {
  nlohmann::json parts = nlohmann::json::array();
  for (const auto& p : record.parts)
    parts.push_back({p.tensor, p.shape, int(p.kind), p.piece.rank, p.piece.first, p.piece.count,
                     p.piece.offset, p.piece.digest});
  return nlohmann::json{{"bytes", record.file.bytes}, {"digest", record.file.digest}, {"parts", parts}}
      .dump();
}

RankRecord record_from_text(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  RankRecord record;
  record.file = {json.at("bytes").get<std::int64_t>(), json.at("digest").get<std::string>()};
  for (const auto& p : json.at("parts")) {
    record.parts.push_back({p.at(0).get<std::string>(),
                            p.at(1).get<Shape>(),
                            Kind(p.at(2).get<int>()),
                            {p.at(3).get<int>(), p.at(4).get<std::int64_t>(), p.at(5).get<std::int64_t>(),
                             p.at(6).get<std::int64_t>(), p.at(7).get<std::string>()}});
  }
  return record;
}

}  // namespace zt::checkpoint
