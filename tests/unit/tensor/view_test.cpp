#include "tensor/view.h"

#include <doctest/doctest.h>

#include <vector>

namespace zt {
namespace {

TEST_CASE("view: the default one is absent and empty") {
  const View none;
  CHECK_FALSE(none);
  CHECK(none.size() == 0);
  CHECK(none.contiguous());
}

TEST_CASE("view: takes its format from the pointer, its stride from the columns unless told") {
  std::vector<bf16> x(12);
  const View view(x.data(), 3, 4);
  CHECK(view);
  CHECK(view.dtype == Dtype::bf16);
  CHECK(view.stride == 4);
  CHECK(view.size() == 12);
  CHECK(view.contiguous());
  const std::vector<float> constant(8);
  CHECK(View(constant.data(), 2, 3, 4).dtype == Dtype::f32);
  CHECK_FALSE(View(constant.data(), 2, 3, 4).contiguous());
  CHECK(View(constant.data(), 1, 3, 4).contiguous());  // one row has nothing between its rows
}

TEST_CASE("view: columns and rows of a matrix of any format point to the right elements") {
  std::vector<float> x32(20);
  std::vector<f16> x16(20);
  const View a(x32.data(), 4, 5), b(x16.data(), 4, 5);
  CHECK(a.columns(2, 3).as<float>() == x32.data() + 2);
  CHECK(b.columns(2, 3).as<f16>() == x16.data() + 2);
  CHECK(b.columns(2, 3).stride == 5);
  CHECK(b.columns(2, 3).rows == 4);
  CHECK(b.columns(2, 3).cols == 3);
  CHECK(a.slice(1, 2).as<float>() == x32.data() + 5);
  CHECK(b.slice(1, 2).as<f16>() == x16.data() + 5);
  CHECK(b.slice(1, 2).rows == 2);
  // A slice of columns of a slice of rows: row 3, column 4.
  CHECK(b.slice(2, 2).columns(3, 2).slice(1, 1).columns(1, 1).as<f16>() == x16.data() + 19);
}

TEST_CASE("view: reading it as another type is our bug, and says which two") {
  std::vector<bf16> x(4);
  const View view(x.data(), 1, 4);
  CHECK(view.as<const bf16>() == x.data());
  try {
    view.as<float>();
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::bug);
    CHECK(e.problem() == "a bfloat16 view was read as float32");
  }
}

}  // namespace
}  // namespace zt
