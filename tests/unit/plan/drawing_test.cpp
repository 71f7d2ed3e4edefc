// Texts, axes and colours of the pictures.
#include "plan/drawing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "support/xml.h"

namespace zt::plan {
namespace {

TEST_CASE("drawing: any bytes become text that XML reads back, with U+FFFD for what it cannot hold") {
  const std::string bad = "\xef\xbf\xbd";
  const auto back = [](const std::string& text) {
    return test::parse_xml("<t a=\"" + xml_text(text) + "\">" + xml_text(text) + "</t>").front();
  };
  for (const std::string text : {"<script>alert(1)</script>", "\"'&<>&amp;", "größe 模型 🦙", "]]>", ""}) {
    CAPTURE(text);
    CHECK(back(text).text == text);
    CHECK(back(text).at("a") == text);
  }
  CHECK(xml_text(std::string("a\0b\x01\x1b", 5)) == "a" + bad + "b" + bad + bad);
  CHECK(xml_text("\xff") == bad);
  CHECK(xml_text("\xc3") == bad);                                // cut off
  CHECK(xml_text("\xc0\xaf") == bad + bad);                      // '/' in two bytes
  CHECK(xml_text("\xed\xa0\x80") == bad + bad + bad);            // a surrogate
  CHECK(xml_text("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // above U+10FFFF
  CHECK(xml_text("\xef\xbf\xbf") == bad + bad + bad);            // U+FFFF
  CHECK(xml_text("\xf4\x8f\xbf\xbd") == "\xf4\x8f\xbf\xbd");
}

TEST_CASE("drawing: times have three digits and a unit that fits") {
  const std::pair<double, const char*> cases[] = {
      {0, "0 s"},          {1.234, "1.23 s"},    {12.34, "12.3 s"},        {123.4, "123 s"},
      {0.0031, "3.10 ms"}, {4.2e-6, "4.20 µs"},  {5e-10, "0.50 ns"},       {0.99996, "1.00 s"},
      {725, "12m 05s"},    {3.2e9, "101 years"}, {1e30, "3.17e+22 years"}, {std::nan(""), "unknown"}};
  for (const auto& [seconds, text] : cases) CHECK(time_text(seconds) == text);
}

TEST_CASE("drawing: axes have few marks at round values, each where its words say") {
  const auto value = [](const std::string& text) { return std::strtod(text.c_str(), nullptr); };
  for (const double to : {1e-7, 0.0042, 0.37, 1., 59., 725., 1e6}) {
    CAPTURE(to);
    const std::vector<Tick> ticks = time_ticks(0, to, 9);
    CHECK(ticks.size() >= 4);
    CHECK(ticks.size() <= 10);
    const double unit = to < 1e-6 ? 1e-9 : to < 1e-3 ? 1e-6 : to < 1 ? 1e-3 : 1;
    for (const Tick& tick : ticks)
      CHECK(tick.at * to == doctest::Approx(value(tick.text) * unit).epsilon(1e-6));
  }
  for (const double top : {1., 1000., 3e6, 85899345920., 1e15, 1e18}) {
    CAPTURE(top);
    const std::vector<Tick> ticks = byte_ticks(top, 6);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 7);
    for (const Tick& tick : ticks) CHECK(tick.at <= 1);
  }
  const std::vector<Tick> late = time_ticks(1.2003, 1.2010, 9);
  CHECK(late.front().text == "1.2003 s");
  CHECK(late.back().text == "1.2010 s");
  CHECK(count_ticks(3, 9).size() == 4);
  CHECK(time_ticks(1, 1, 9).empty());
}

TEST_CASE("drawing: a picture's id is a plain name") {
  for (const char* id : {"", "1a", "a b", "a\"", "a{}"})
    CHECK_THROWS_AS(open_svg({id, "", "", 1, "", "", ""}, {}), Error);
}

// ---- Colours

using Color = std::array<double, 3>;

double linear(int channel) {
  const double c = channel / 255.;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}
Color linear(Rgb c) { return {linear(int(c >> 16)), linear(int(c >> 8 & 255)), linear(int(c & 255))}; }

// Linear sRGB to OKLab. Ottosson 2020.
Color oklab(const Color& c) {
  const auto [r, g, b] = c;
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b),
               m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b),
               s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

// Normal sight, protanopia, deuteranopia, tritanopia. Machado et al. 2009, table 1, severity 1.
constexpr std::array<std::array<double, 9>, 4> kSights = {
    {{1, 0, 0, 0, 1, 0, 0, 0, 1},
     {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
     {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
     {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}}};

double least_difference(Rgb a, Rgb b) {
  double least = 10;
  for (const auto& m : kSights) {
    const auto seen = [&](Rgb color) {
      const Color c = linear(color);
      Color out{};
      for (std::size_t i = 0; i < 3; ++i)
        out[i] = std::clamp(m[3 * i] * c[0] + m[3 * i + 1] * c[1] + m[3 * i + 2] * c[2], 0., 1.);
      return oklab(out);
    };
    const Color x = seen(a), y = seen(b);
    least = std::min(least, std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]));
  }
  return least;
}

void check_colors(const std::vector<Paint>& paints) {
  for (std::size_t i = 0; i < paints.size(); ++i) {
    CAPTURE(std::string(paints[i].css_class));
    CHECK(contrast(paints[i].light, kLightGround) >= 3);
    CHECK(contrast(paints[i].dark, kDarkGround) >= 3);
    CHECK(contrast(paints[i].light, ink_on(paints[i].light)) >= 4.5);
    CHECK(contrast(paints[i].dark, ink_on(paints[i].dark)) >= 4.5);
    for (std::size_t k = 0; k < i; ++k) {
      CAPTURE(std::string(paints[k].css_class));
      CHECK(least_difference(paints[i].light, paints[k].light) >= 0.08);
      CHECK(least_difference(paints[i].dark, paints[k].dark) >= 0.08);
    }
  }
}

TEST_CASE("palette: contrast is WCAG's") {
  CHECK(contrast(0x000000, 0xffffff) == doctest::Approx(21));
  CHECK(contrast(0x777777, 0xffffff) ==
        doctest::Approx(4.48).epsilon(0.001));  // the well-known grey that just fails
}

TEST_CASE("palette: colours stand out from both grounds and from each other, whatever colours one sees") {
  using enum schedule::OpKind;
  check_colors(layer_paints());
  const auto of = [](std::initializer_list<schedule::OpKind> kinds) {
    std::vector<Paint> out;
    for (const auto kind : kinds) out.push_back(paint(kind));
    return out;
  };
  check_colors(of({forward, recompute, head, backward, accumulate, norm, update}));  // the compute lane
  check_colors(of({gather, reduce, norm}));                                          // the comm lane
}

}  // namespace
}  // namespace zt::plan
