#include "checkpoint/model_file.h"

#include <limits>

#include "base/text.h"
#include "checkpoint/descriptor.h"
#include "checkpoint/hdf5.h"

namespace zt::checkpoint {
namespace {

namespace fs = std::filesystem;

// Works on the dimensions from `d` on; `start` holds the indices before them.
class Boxes {
 public:
  explicit Boxes(const Shape& shape) : shape_(shape), start_(shape.size()) {}

  void add(std::size_t d, std::int64_t first, std::int64_t count) {
    std::int64_t row = 1;  // elements for one index of dimension d
    for (std::size_t i = d + 1; i < shape_.size(); ++i) row *= shape_[i];
    std::int64_t index = first / row;
    if (const std::int64_t into = first % row; into != 0) {
      const std::int64_t rest = std::min(count, row - into);
      part_of_row(d, index++, into, rest);
      count -= rest;
    }
    if (const std::int64_t whole = count / row; whole > 0) {
      rows(d, index, whole, row);
      index += whole;
      count -= whole * row;
    }
    if (count > 0) part_of_row(d, index, 0, count);
  }
  std::vector<Box> take() { return std::move(out_); }

 private:
  void part_of_row(std::size_t d, std::int64_t index, std::int64_t first, std::int64_t count) {
    start_[d] = std::uint64_t(index);
    add(d + 1, first, count);
  }

  void rows(std::size_t d, std::int64_t index, std::int64_t number, std::int64_t row) {
    Box box{start_, std::vector<std::uint64_t>(shape_.size(), 1), offset_, number * row};
    box.start[d] = std::uint64_t(index);
    box.count[d] = std::uint64_t(number);
    for (std::size_t i = d + 1; i < shape_.size(); ++i) {
      box.start[i] = 0;
      box.count[i] = std::uint64_t(shape_[i]);
    }
    offset_ += box.size;
    out_.push_back(std::move(box));
  }

  const Shape& shape_;
  std::vector<std::uint64_t> start_;
  std::int64_t offset_ = 0;
  std::vector<Box> out_;
};

hsize_t as_extent(std::uint64_t n) { return hsize_t(n); }

std::vector<hsize_t> extents(const std::vector<std::uint64_t>& numbers) {
  std::vector<hsize_t> out;
  for (const std::uint64_t n : numbers) out.push_back(as_extent(n));
  return out;
}

class ModelFile {
 public:
  ModelFile(const fs::path& path, const Manifest& manifest) : path_(path), manifest_(manifest), file_(path) {
    hdf5::write_attribute(file_.id(), "format", "zerotrain model", path_);
    hdf5::write_attribute(file_.id(), "version", 1, path_);
    hdf5::write_attribute(file_.id(), "step", manifest.state.step, path_);
  }

  void write(const std::string& tensor, const StoredTensor& stored) {
    const std::string doing = "map " + tensor;
    std::vector<hsize_t> extent(stored.shape.begin(), stored.shape.end());
    const hdf5::Handle space = hdf5::simple_space(extent, path_);
    const hdf5::Handle creation = hdf5::timeless(H5P_DATASET_CREATE, path_);
    // HDF5 passes over files that aren't there; nobody shall take what is missing for zeros.
    const float missing = std::numeric_limits<float>::quiet_NaN();
    hdf5::check(H5Pset_fill_value(creation.id(), H5T_NATIVE_FLOAT, &missing), doing, path_);
    for (const StoredPiece& piece : stored.of(Kind::value)) {
      for (const Box& box : boxes(stored.shape, piece.first, piece.count))
        map(creation, space, tensor, piece, box);
    }
    hdf5::Handle set(H5Dcreate2(file_.id(), tensor.c_str(), H5T_IEEE_F32LE, space.id(), H5P_DEFAULT,
                                creation.id(), H5P_DEFAULT),
                     H5Dclose, doing, path_);
    set.close(doing, path_);
  }

  void close() { file_.close(); }

 private:
  void map(const hdf5::Handle& creation, const hdf5::Handle& space, const std::string& tensor,
           const StoredPiece& piece, const Box& box) const {
    const std::string doing = "map " + tensor;
    const std::vector<hsize_t> start = extents(box.start), count = extents(box.count);
    hdf5::check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                doing, path_);
    const hdf5::Handle source = hdf5::simple_space({hsize_t(piece.count)}, path_);
    const hsize_t from = hsize_t(box.offset), size = hsize_t(box.size);
    hdf5::check(H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, &from, nullptr, &size, nullptr), doing,
                path_);
    hdf5::check(
        H5Pset_virtual(creation.id(), space.id(), rank_file_name(piece.rank, manifest_.state.ranks).c_str(),
                       dataset_name(tensor, Kind::value).c_str(), source.id()),
        doing, path_);
  }

  fs::path path_;
  const Manifest& manifest_;
  hdf5::NewFile file_;
};

}  // namespace

std::vector<Box> boxes(const Shape& shape, std::int64_t first, std::int64_t count) {
  Boxes out(shape);
  out.add(0, first, count);
  return out.take();
}

void write_model_file(const fs::path& path, const Manifest& manifest) {
  {
    const hdf5::Use use;
    ModelFile file(path, manifest);
    for (const auto& [name, stored] : manifest.tensors) file.write(name, stored);
    file.close();
  }
  sync_file(path);
}

}  // namespace zt::checkpoint
