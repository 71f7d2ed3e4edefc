#include "plan/memory_picture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "plan/palette.h"
#include "support/steps.h"
#include "support/xml.h"

namespace zt::plan {
namespace {

using Document = std::vector<test::XmlElement>;

// Where the upper edge of one area is at a share of the width, in pixels from the bottom.
double height_at(const test::XmlElement& path, double share) {
  const char* at = path.attributes.at("d").c_str();
  char* end = nullptr;
  REQUIRE(*at++ == 'M');
  double x = std::strtod(at, &end), y = 0;
  const double bottom = std::strtod(end, &end);
  for (at = end; *at != 'Z'; at = end) {
    const char command = *at;
    const double value = std::strtod(at + 1, &end);
    if (command == 'V') y = value;
    if (command == 'H' && (x = value) > share * 1200) break;
  }
  return bottom - y;
}

// The areas from the ground up.
Document areas(const Document& document) {
  Document paths = test::elements(document, "path");
  std::reverse(paths.begin(), paths.end());
  return paths;
}

void check_heights(const MemoryStack& stack, const Document& document, std::size_t op, double share) {
  const Document paths = areas(document);
  REQUIRE(paths.size() == stack.layers.size() + 1);
  const std::size_t peak = std::size_t(peak_op(stack));
  // The scale: the peak is as high as 1 / 1.06 of the 260 pixels.
  const double bytes_a_pixel = double(stack.total(peak)) * 1.06 / 260;
  double below = 0, sum = 0;
  for (std::size_t k = 0; k < paths.size(); ++k) {
    const double top = height_at(paths[k], share);
    const double bytes = k == 0 ? double(stack.constant) : double(stack.layers[k - 1].bytes[op]);
    CAPTURE(k);
    CHECK(std::abs((top - below) * bytes_a_pixel - bytes) <= 0.02 * bytes_a_pixel);
    CHECK(paths[k].at("class") == layer_paint(k).css_class);
    sum += (top - below) * bytes_a_pixel;
    below = top;
  }
  CHECK(std::abs(sum - double(stack.total(op))) <= 0.02 * bytes_a_pixel);
}

TEST_CASE("memory picture: at every op the heights of the areas are its planned bytes") {
  for (const int ranks : {1, 4}) {
    const schedule::Schedule list = test::small_step(5, 2, ranks);
    const MemoryStack stack = stack_of(memory_timeline(list), 30'000);
    const Document document = test::parse_xml(memory_svg(stack, list));
    for (std::size_t i = 0; i < list.ops.size(); ++i) {
      CAPTURE(i);
      check_heights(stack, document, i, (double(i) + 0.5) / double(list.ops.size()));
    }
  }
}

TEST_CASE("memory picture: with time, each compute op's bytes stand where it runs") {
  const schedule::Schedule list = test::small_step(5, 2, 4);
  const MemoryStack stack = stack_of(memory_timeline(list), 30'000);
  const Simulation time = test::played(list, 1.5);
  MemoryPicture picture;
  picture.time = &time;
  const Document document = test::parse_xml(memory_svg(stack, list, picture));
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    if (list.ops[i].lane != schedule::Lane::compute) continue;
    const Span& span = time.spans[i];
    if (span.end - span.start < time.seconds / 300) continue;  // too near to its neighbours' columns
    CAPTURE(i);
    std::size_t most = i;  // of it and what the other lanes are given with it
    for (std::size_t k = i + 1; k < list.ops.size() && list.ops[k].lane != schedule::Lane::compute; ++k)
      if (stack.total(k) > stack.total(most)) most = k;
    check_heights(stack, document, most, (span.start + span.end) / 2 / time.seconds);
  }
}

TEST_CASE("memory picture: one op among a hundred thousand that holds the most is drawn and named") {
  schedule::Schedule list;
  list.ops.resize(100'000);
  list.ops[77'777].block = 12, list.ops[77'777].micro = 3;
  MemoryStack stack{1'000'000, {{"activations", std::vector<std::int64_t>(list.ops.size(), 10)}}};
  stack.layers[0].bytes[77'777] = 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  const std::string svg = memory_svg(stack, list);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 1);
  CHECK(svg.size() < 300'000);
  const Document document = test::parse_xml(svg);
  const double column = std::floor(0.77777 * 1200);
  CHECK(height_at(areas(document)[1], (column + 0.5) / 1200) == doctest::Approx(260 / 1.06).epsilon(1e-3));
  CHECK(height_at(areas(document)[1], (column + 1.5) / 1200) == doctest::Approx(130 / 1.06).epsilon(1e-3));
  CHECK(svg.find("peak 1.91 MiB") != std::string::npos);
  CHECK(svg.find("forward b12 m3") != std::string::npos);
}

TEST_CASE(
    "memory picture: the device's line stands at its bytes, is told where out of sight, and says what is "
    "missing") {
  const schedule::Schedule list = test::small_step(5, 2, 4);
  const MemoryStack stack = stack_of(memory_timeline(list), 1 << 20);
  const std::int64_t peak = stack.total(std::size_t(peak_op(stack)));
  const auto drawn = [&](std::int64_t bytes) {
    MemoryPicture picture;
    picture.device_bytes = bytes;
    return test::parse_xml(memory_svg(stack, list, picture));
  };
  const auto says = [](const Document& document, const std::string& words) {
    return std::any_of(document.begin(), document.end(),
                       [&](const auto& e) { return e.text.find(words) != std::string::npos; });
  };
  const Document above = drawn(2 * peak), below = drawn(peak / 2), far = drawn(100 * peak), none = drawn(0);
  REQUIRE(test::elements(above, "line", "limit").size() == 1);
  CHECK(test::elements(above, "line", "limit")[0].number("y1") ==
        doctest::Approx(72 + 260 * (1 - 1 / 1.06)).epsilon(1e-3));
  REQUIRE(test::elements(below, "line", "limit").size() == 1);
  CHECK(test::elements(below, "line", "limit")[0].number("y1") ==
        doctest::Approx(72 + 260 * (1 - 0.5 / 1.06)).epsilon(1e-3));
  CHECK(says(below, cat(human_bytes(peak - peak / 2), " below the peak")));
  CHECK(test::elements(far, "line", "limit").empty());
  CHECK(says(far, cat("device: ", human_bytes(100 * peak))));
  CHECK(test::elements(none, "line", "limit").empty());
  CHECK_FALSE(says(none, "device"));
}

TEST_CASE("memory picture: hostile titles, no ops, no bytes and lengths that disagree") {
  const schedule::Schedule list = test::small_step(2, 1, 1);
  const MemoryStack stack = stack_of(memory_timeline(list), 5);
  MemoryPicture picture;
  picture.title = "</title><script>\"'&\x01";
  const Document document = test::parse_xml(memory_svg(stack, list, picture));
  CHECK(test::elements(document, "script").empty());
  CHECK(document[1].text == "</title><script>\"'&\xef\xbf\xbd");
  test::parse_xml(memory_svg({}, {}));
  test::parse_xml(memory_svg(stack_of({}, 12), {}));
  CHECK_THROWS_AS(memory_svg(stack, {}), Error);
  const Simulation none;
  picture.time = &none;
  CHECK_THROWS_WITH_AS(memory_svg(stack, list, picture), doctest::Contains("times of 0 ops"), Error);
}

}  // namespace
}  // namespace zt::plan
