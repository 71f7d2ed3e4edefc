#include "plan/gather_hiding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "plan/collective_cost.h"
#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

TEST_CASE("hiding: from so many tokens on, computing takes as long as moving, and not before") {
  // Times by themselves: 2 psi T / F and 4 psi T / F against the bytes of each transfer.
  const double psi = 855654400, F = 600e12, B = 400e9;
  for (const WireBytes& wire : {kWireBf16, kWireBf16Fp32Gradients, kWireFp32, kWireZeroPlusPlus}) {
    const double forward = tokens_to_hide(Pass::forward, wire, F, B);
    CHECK(near(2 * psi * forward / F, wire.forward * psi / B));
    const double backward = tokens_to_hide(Pass::backward, wire, F, B);
    CHECK(near(4 * psi * backward / F, (wire.backward + wire.gradient) * psi / B));
    const double again = tokens_to_hide(Pass::backward_recompute, wire, F, B);
    CHECK(near(6 * psi * again / F, (wire.backward + wire.gradient) * psi / B));
    const double reduction = tokens_to_hide_reduction(wire, F, B);
    CHECK(near(4 * psi * reduction / F, wire.gradient * psi / B));
  }
}

TEST_CASE("hiding: wire formats need the printed multiples of F/B") {
  const struct {
    WireBytes wire;
    double forward, backward, recompute, digit;
  } rows[] = {{kWireBf16, 1, 1, 0.67, 0.01},
              {kWireBf16Fp32Gradients, 1, 1.5, 1, 0.01},
              {kWireFp32, 2, 2, 1.33, 0.01},
              {kWireZeroPlusPlus, 0.5, 0.125, 0.083, 0.001}};
  for (const auto& row : rows) {
    CHECK(tokens_to_hide(Pass::forward, row.wire, 1, 1) == row.forward);
    CHECK(tokens_to_hide(Pass::backward, row.wire, 1, 1) == row.backward);
    CHECK(prints(tokens_to_hide(Pass::backward_recompute, row.wire, 1, 1), row.recompute, row.digit));
  }
}

TEST_CASE("hiding: tokens a GPU in bf16 by effective bandwidth, all 16 cells") {
  const struct {
    double gigabytes, at_peak, achieved;
  } rows[] = {{450, 2198, 1333}, {360, 2747, 1667},  {400, 2473, 1500},  {340, 2909, 1765},
              {100, 9890, 6000}, {50, 19780, 12000}, {25, 39560, 24000}, {12.5, 79120, 48000}};
  for (const auto& row : rows) {
    CAPTURE(row.gigabytes);
    const double B = row.gigabytes * 1e9;
    CHECK(std::round(tokens_to_hide(Pass::forward, kWireBf16, 989e12, B)) == row.at_peak);
    CHECK(std::round(tokens_to_hide(Pass::forward, kWireBf16, 600e12, B)) == row.achieved);
    CHECK(near(tokens_to_hide(Pass::forward, kWireZeroPlusPlus, 600e12, B), 300e12 / B));
  }
  // 4,096 tokens hide over NVLink and eight NDR400, and over nothing below about 250 GB/s a node.
  CHECK(tokens_to_hide(Pass::forward, kWireBf16, 989e12, 340e9) < 4096);
  CHECK(tokens_to_hide(Pass::forward, kWireBf16, 989e12, 240e9) > 4096);
  // The JAX scaling book ("GPUs"): 2200 tokens inside an H100 node, 2475 across nodes.
  CHECK(tokens_to_hide(Pass::forward, kWireBf16, 990e12, 450e9) == doctest::Approx(2200));
  CHECK(tokens_to_hide(Pass::forward, kWireBf16, 990e12, 400e9) == doctest::Approx(2475));
}

TEST_CASE("hiding: tokens a node of a CPU cluster in fp32, bf16 and 4 bits, all 45 cells") {
  const std::vector<double> links = {1.25e9, 3.125e9, 12.5e9}, bytes = {4, 2, 0.5};
  const struct {
    double teraflops, tokens[9];
  } rows[] = {{0.5, {800, 400, 100, 320, 160, 40, 80, 40, 10}},
              {2, {3200, 1600, 400, 1280, 640, 160, 320, 160, 40}},
              {5, {8000, 4000, 1000, 3200, 1600, 400, 800, 400, 100}},
              {20, {32000, 16000, 4000, 12800, 6400, 1600, 3200, 1600, 400}},
              {60, {96000, 48000, 12000, 38400, 19200, 4800, 9600, 4800, 1200}}};
  for (const auto& row : rows) {
    for (std::size_t link = 0; link < 3; ++link) {
      for (std::size_t wire = 0; wire < 3; ++wire) {
        CAPTURE(row.teraflops);
        const WireBytes b{bytes[wire], bytes[wire], bytes[wire]};
        CHECK(near(tokens_to_hide(Pass::forward, b, row.teraflops * 1e12, links[link]),
                   row.tokens[3 * link + wire]));
      }
    }
  }
}

TEST_CASE("hiding: ZeRO-3's transfers take three times the weights over the link at least") {
  // Seconds on 10 GbE in fp32 and bf16.
  const struct {
    double parameters, fp32, bf16, digit;
  } rows[] = {{15191712, 0.146, 0.073, 0.001},
              {124439808, 1.19, 0.60, 0.01},
              {1557611200, 15.0, 7.5, 0.1},
              {6738415616, 64.7, 32.3, 0.1}};
  for (const auto& row : rows) {
    CAPTURE(row.parameters);
    const double B = 1.25e9;
    CHECK(prints(transfer_floor_seconds(row.parameters, kWireFp32, B), row.fp32, row.digit));
    CHECK(prints(transfer_floor_seconds(row.parameters, kWireBf16, B), row.bf16, row.digit));
    CHECK(near(transfer_floor_seconds(row.parameters, kWireFp32, 2.5 * B),
               transfer_floor_seconds(row.parameters, kWireFp32, B) / 2.5));
  }
  // The same as three rings of many ranks without latency.
  const Link link{.bandwidth = 1.25e9, .latency = 0};
  CHECK(transfer_floor_seconds(7e9, kWireBf16, 1.25e9) ==
        doctest::Approx(3 * ring_seconds(1e6, 14e9, link)).epsilon(1e-5));
}

TEST_CASE("hiding: attention computes besides, more so in long sequences") {
  CHECK(attention_factor(0, 4096) == 1);
  CHECK(attention_factor(4096, 4096) == doctest::Approx(1 + 1.0 / 6));
  CHECK(attention_factor(24576, 4096) == doctest::Approx(2));
}

}  // namespace
}  // namespace zt::plan
