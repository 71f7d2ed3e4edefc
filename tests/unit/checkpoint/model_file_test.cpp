// model.h5 and the rank files as other programs see them.
#include "checkpoint/model_file.h"

#include <doctest/doctest.h>
#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "pretend.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::checkpoint;
using namespace zt::test;
namespace fs = std::filesystem;

namespace {

// Reads a dataset with plain HDF5 calls, as another program would.
struct Plain {
  std::vector<hsize_t> shape;
  std::vector<float> values;
};

Plain read_plain(const fs::path& file, const std::string& dataset) {
  const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(f >= 0);
  const hid_t set = H5Dopen2(f, dataset.c_str(), H5P_DEFAULT);
  REQUIRE(set >= 0);
  const hid_t space = H5Dget_space(set);
  Plain out;
  out.shape.resize(std::size_t(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, out.shape.data(), nullptr);
  out.values.resize(std::size_t(H5Sget_simple_extent_npoints(space)), -1.f);
  REQUIRE(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.values.data()) >= 0);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(f);
  return out;
}

void check_model(const fs::path& file) {
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const Tensor t = tensors()[i];
    CAPTURE(t.name);
    const Plain found = read_plain(file, t.name);
    CHECK(found.shape == std::vector<hsize_t>(t.shape.begin(), t.shape.end()));
    std::size_t wrong = 0;
    for (std::int64_t e = 0; e < t.elements(); ++e)
      wrong += std::size_t(found.values[std::size_t(e)] != number(i, Kind::value, e));
    CHECK(wrong == 0);
  }
}

// Restores the working folder.
class In {
 public:
  explicit In(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~In() { fs::current_path(before_); }

 private:
  fs::path before_;
};

// What a command writes and its exit status.
std::pair<std::string, int> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  return {text, ::pclose(pipe)};
}

// Debian's h5py belongs to Debian's Python, which need not be the first one.
std::optional<std::string> python_with_h5py() {
  for (const char* const python : {"python3", "/usr/bin/python3"}) {
    if (output_of(cat(python, " -c 'import h5py, numpy'")).second == 0) return python;
  }
  return {};
}

}  // namespace

TEST_CASE("boxes: every range of every shape is covered once, in order, by few boxes") {
  for (const Shape& shape : std::vector<Shape>{{1}, {7}, {3, 5}, {1, 4}, {4, 1}, {2, 3, 4}, {2, 1, 3, 2}}) {
    const std::int64_t all = exchange::elements_of(shape);
    for (std::int64_t first = 0; first < all; ++first) {
      for (std::int64_t count = 1; first + count <= all; ++count) {
        std::vector<std::int64_t> visited;
        const std::vector<Box> found = boxes(shape, first, count);
        for (const Box& box : found) {
          if (box.offset != std::int64_t(visited.size())) FAIL("offset");
          // All indices in the box, last dimension fastest, by trying every element of the tensor.
          for (std::int64_t e = 0; e < all; ++e) {
            bool inside = true;
            std::int64_t rest = e;
            for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
              const auto index = std::uint64_t(rest % shape[d]);
              inside = inside && index >= box.start[d] && index < box.start[d] + box.count[d];
            }
            if (inside) visited.push_back(e);
          }
          if (std::int64_t(visited.size()) != box.offset + box.size) FAIL("size");
        }
        std::vector<std::int64_t> wanted;
        for (std::int64_t e = first; e < first + count; ++e) wanted.push_back(e);
        if (visited != wanted) FAIL(exchange::text_of(shape), " from ", first, ", ", count, " elements");
        if (found.size() > 2 * shape.size() - 1) FAIL("too many boxes");
      }
    }
  }
}

TEST_CASE("model.h5: plain HDF5 reads every weight with its shape, whatever the number of ranks") {
  for (const int ranks : {1, 2, 3, 8, 40}) {
    CAPTURE(ranks);
    const ScratchDir scratch;
    check_model(save(scratch.path(), 100, ranks) / "model.h5");
  }
}

TEST_CASE("model.h5: still, after the folder was moved and from any working folder") {
  const ScratchDir scratch, elsewhere;
  const fs::path moved = elsewhere.path() / "mine";
  fs::copy(save(scratch.path() / "checkpoints", 100, 3), moved);
  fs::remove_all(scratch.path() / "checkpoints");
  check_model(moved / "model.h5");
  {
    const In root("/");
    check_model(moved / "model.h5");
  }
  {
    const In parent(elsewhere.path());
    check_model("mine/model.h5");
  }
  {
    const In inside(moved);
    check_model("model.h5");
  }
}

TEST_CASE("model.h5: what a missing rank file held reads as not-a-number, not as zero") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  fs::remove(folder / "rank-00000-of-00003.h5");
  const Plain found = read_plain(folder / "model.h5", "model.embed_tokens.weight");
  CHECK(std::isnan(found.values[0]));
}

TEST_CASE("rank files: plain HDF5 finds each piece under tensor and kind, with where it belongs") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const fs::path file = folder / "rank-00001-of-00003.h5";
  const Share share(1, 3);
  for (const Piece& piece : share.pieces) {
    const std::string dataset = cat("/", piece.tensor, "/", name(piece.kind));
    CAPTURE(dataset);
    const Plain found = read_plain(file, dataset);
    CHECK(found.values == std::vector<float>(piece.data, piece.data + piece.count));
    const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(f, dataset.c_str(), H5P_DEFAULT);
    std::int64_t first = -1;
    const hid_t attribute = H5Aopen(set, "first", H5P_DEFAULT);
    CHECK(H5Aread(attribute, H5T_NATIVE_INT64, &first) >= 0);
    CHECK(first == piece.first);
    H5Aclose(attribute);
    H5Dclose(set);
    H5Fclose(f);
  }
}

TEST_CASE("model.h5: the h5py script shows every weight") {
  const auto python = python_with_h5py();
  if (!python) {
    MESSAGE("skipped: no python3 here has h5py");
    return;
  }
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const std::string script = cat(*python, " ", (source_dir() / "scripts/read_checkpoint.py").string());
  const auto [lines, status] = output_of(cat(script, " ", folder.string()));
  CHECK_MESSAGE(status == 0, lines);
  CHECK(says(lines, "step 100\n"));
  for (const Tensor& t : tensors())
    CHECK_MESSAGE(says(lines, cat(t.name, " ", exchange::text_of(t.shape), " mean ")), lines);
  const auto [values, also] =
      output_of(cat(script, " ", folder.string(), " model.layers.0.self_attn.q_proj.weight"));
  CHECK(also == 0);
  std::istringstream in(values);
  std::int64_t element = 0;
  for (float value = 0; in >> value; ++element) {
    if (value != number(1, Kind::value, element)) FAIL("element ", element, " is ", value);
  }
  CHECK(element == 11 * 13);
}
