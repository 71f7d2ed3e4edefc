// Products on the GPU beyond the parity table.
#include <doctest/doctest.h>

#include <vector>

#include "cuda/settings.h"

namespace zt::cuda_test {
namespace {

// cuBLASLt chooses an algorithm by the bias's address too, which the next bias of the same shape need not share.
TEST_CASE("cuda linear: one shape with biases at addresses of different alignment") {
  constexpr std::int64_t kN = 16, kI = 16, kO = 24;
  emulator::configure(1, emulator::Policy::random, emulator::Order::random);
  OnDevice kernels(Placement::as_given);
  std::vector<bf16> x(kN * kI), w(kO * kI, bf16(0.f)), y(kN * kO);
  alignas(16) bf16 biases[kO + 8];
  for (std::int64_t i = 0; i < kN * kI; ++i) x[std::size_t(i)] = bf16(float(i % 7));
  for (std::int64_t i = 0; i < kO + 8; ++i) biases[i] = bf16(float(i));
  for (const int first : {0, 4, 2, 1, 8}) {
    CAPTURE(first);
    kernels.linear({.x_NI = View(x.data(), Dtype::bf16, kN, kI),
                    .w_OI = View(w.data(), Dtype::bf16, kO, kI),
                    .b_O = View(biases + first, Dtype::bf16, 1, kO),
                    .y_NO = View(y.data(), Dtype::bf16, kN, kO)});
    for (std::int64_t i = 0; i < kN * kO; ++i) CHECK(float(y[std::size_t(i)]) == float(first + i % kO));
  }
  CHECK(emulator::to_string(emulator::take_findings()) == "");
}

}  // namespace
}  // namespace zt::cuda_test
