// The orders in which the emulated GPU runs each test's work.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <string>

#include "cuda/on_device.h"
#include "cuda_emulator/emulator.h"

namespace zt::cuda_test {

struct Setting {
  const char* name;
  std::uint64_t seed;
  emulator::Policy policy;
  emulator::Order order;
  Placement placement;
};

inline constexpr Setting kSettings[] = {
    {"seed 1", 1, emulator::Policy::random, emulator::Order::random, Placement::as_given},
    {"seed 2", 2, emulator::Policy::random, emulator::Order::random, Placement::aligned},
    {"seed 3", 3, emulator::Policy::random, emulator::Order::random, Placement::aligned},
    {"lazy", 4, emulator::Policy::lazy, emulator::Order::reverse, Placement::aligned},
    {"eager", 5, emulator::Policy::eager, emulator::Order::forward, Placement::as_given},
};

// Runs f(setting) under each, as a subcase, and wants no finding.
template <typename F>
void under_settings(std::span<const Setting> settings, const std::string& what, F f) {
  for (const Setting& setting : settings) {
    SUBCASE((what + " by " + setting.name).c_str()) {
      emulator::configure(setting.seed, setting.policy, setting.order);
      f(setting);
      CHECK(emulator::to_string(emulator::take_findings()) == "");
    }
  }
}

template <typename F>
void under_each_setting(const std::string& what, F f) {
  under_settings(kSettings, what, f);
}

}  // namespace zt::cuda_test
