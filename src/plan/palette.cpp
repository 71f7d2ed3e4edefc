#include "plan/palette.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace zt::plan {

std::string hex(Rgb color) { return fmt::format("#{:06x}", color); }

const Paint& paint(schedule::OpKind kind) {
  using enum schedule::OpKind;
  static const Paint gathers = {"kg", 0x0c9a49, 0x2fcf5a}, forwards = {"kf", 0x1558e0, 0x53b2f8},
                     recomputes = {"kr", 0x399ec6, 0xb1dadd}, heads = {"kh", 0x660f72, 0x9465f5},
                     backwards = {"kb", 0xd17e3d, 0xe9976a}, accumulates = {"ka", 0x5e6100, 0xf4d31f},
                     reduces = {"kd", 0x8a00b0, 0xe965ff}, norms = {"kn", 0x231e00, 0xffffc0},
                     updates = {"ku", 0xa43c7f, 0xef489a};
  switch (kind) {
    case gather: return gathers;
    case forward: return forwards;
    case recompute: return recomputes;
    case head: return heads;
    case backward: return backwards;
    case accumulate: return accumulates;
    case reduce: return reduces;
    case norm: return norms;
    case update: return updates;
  }
  return forwards;
}

const std::vector<Paint>& layer_paints() {
  static const std::vector<Paint> all = {{"l0", 0x546579, 0x5f6e81}, {"l1", 0x1c8f5b, 0x57ca82},
                                         {"l2", 0x8800d8, 0xaa40eb}, {"l3", 0x2a4562, 0x798fc9},
                                         {"l4", 0x3b93fe, 0xbbe5ff}, {"l5", 0xe74100, 0xeb4d12},
                                         {"l6", 0x5a4a0a, 0xe4da31}};
  return all;
}

const Paint& layer_paint(std::size_t index) {
  const std::vector<Paint>& all = layer_paints();
  return index < all.size() ? all[index] : all[1 + (index - 1) % (all.size() - 1)];
}

namespace {

double linear(Rgb channel) {
  const double c = double(channel & 0xff) / 255;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}
double luminance(Rgb c) { return 0.2126 * linear(c >> 16) + 0.7152 * linear(c >> 8) + 0.0722 * linear(c); }

}  // namespace

double contrast(Rgb a, Rgb b) {
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

Rgb ink_on(Rgb ground) { return contrast(ground, 0) > contrast(ground, 0xffffff) ? 0x000000 : 0xffffff; }

}  // namespace zt::plan
