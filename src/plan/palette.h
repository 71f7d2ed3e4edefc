// The colours of the pictures: one table, for light and dark grounds.
//
// Chosen so that each has a contrast of at least 3 to its ground (WCAG 2.2, 1.4.11), and any two that meet in one
// picture differ by at least 0.08 in OKLab (Ottosson 2020) for people with normal sight, protanopia, deuteranopia and
// tritanopia (simulated by the matrices of Machado, Oliveira & Fernandes 2009). Tests hold the table to that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/op.h"

namespace zt::plan {

// A colour as 0xRRGGBB.
using Rgb = std::uint32_t;
std::string hex(Rgb color);  // "#0072b2"

// What is drawn has a class in the pictures' style sheets.
struct Paint {
  const char* css_class;
  Rgb light, dark;
};

inline constexpr Rgb kLightGround = 0xffffff, kDarkGround = 0x16191d;

const Paint& paint(schedule::OpKind kind);
// Of the memory picture: 0 is the constant part, then its layers; more than there are colours begin again after 0.
const Paint& layer_paint(std::size_t index);
const std::vector<Paint>& layer_paints();

// The contrast of two colours, 1 to 21. WCAG 2.2, "contrast ratio".
double contrast(Rgb a, Rgb b);
// Black or white, whichever is easier to read on `ground`.
Rgb ink_on(Rgb ground);

}  // namespace zt::plan
