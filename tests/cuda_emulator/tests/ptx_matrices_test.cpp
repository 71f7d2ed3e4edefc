// Tensor-core paths against products on the host. Elements are whole numbers of at most 8, so every sum is exact.
#include "ptx_matrices.h"

#include <bit>
#include <cmath>

#include "cuda_emulator/tests/program.h"
#include "cuda_emulator/tests/record.h"

namespace zt::emulator {
namespace {

float element(int matrix, int i, int k) { return float((i * 7 + k * 5 + matrix * 3 + i * k) % 17 - 8); }

std::uint16_t sixteen_bits(Format format, float x) {
  if (format == Format::bf16) return std::uint16_t(std::bit_cast<std::uint32_t>(x) >> 16);
  if (x == 0) return 0;
  int e = 0;
  const float fraction = std::frexp(std::fabs(x), &e) * 2 - 1;
  return std::uint16_t((x < 0 ? 0x8000 : 0) | (e + 14) << 10 | int(fraction * 1024));
}

template <typename T>
T* uploaded(const std::vector<T>& host, cudaStream_t stream) {
  T* p = device_memory<T>(host.size());
  ZT_DONE(cudaMemcpyAsync(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
  return p;
}

template <typename T>
std::vector<T> downloaded(const T* p, std::size_t n, cudaStream_t stream) {
  std::vector<T> out(n);
  ZT_DONE(cudaMemcpyAsync(out.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, stream));
  ZT_DONE(cudaStreamSynchronize(stream));
  record(out.data(), out.size() * sizeof(T), Sameness::exact);
  return out;
}

void check_product(const std::vector<float>& d, int rows, int columns, int depth) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      float want = 0;
      for (int k = 0; k < depth; ++k) want += element(0, i, k) * element(1, j, k);
      CAPTURE(i);
      CAPTURE(j);
      CHECK_EQ(d[std::size_t(i * columns + j)], want);
    }
  }
}

// [rows][depth], or [depth][rows].
std::vector<std::uint16_t> operand(Format format, int matrix, int rows, int depth, bool by_depth = false) {
  std::vector<std::uint16_t> out(std::size_t(rows * depth));
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < depth; ++k)
      out[std::size_t(by_depth ? k * rows + i : i * depth + k)] = sixteen_bits(format, element(matrix, i, k));
  }
  return out;
}

}  // namespace

TEST_CASE("mma.sync multiplies bf16, f16 and tf32, also with operands by ldmatrix") {
  configure(1, Policy::random, Order::random);
  const cudaStream_t stream = new_stream();
  for (const Format format : {Format::bf16, Format::f16}) {
    for (const bool matrix_loads : {false, true}) {
      CAPTURE(int(format));
      CAPTURE(matrix_loads);
      auto* d = device_memory<float>(16 * 8);
      const auto a = operand(format, 0, 16, 16), b = operand(format, 1, 8, 16, matrix_loads);
      run_mma(format, matrix_loads, d, uploaded(a, stream), uploaded(b, stream), stream);
      check_product(downloaded(d, 16 * 8, stream), 16, 8, 16);
    }
  }
  std::vector<float> a(16 * 8), b(8 * 8);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 8; ++k) {
      a[std::size_t(i * 8 + k)] = element(0, i, k);
      if (i < 8) b[std::size_t(i * 8 + k)] = element(1, i, k);
    }
  }
  auto* d = device_memory<float>(16 * 8);
  run_mma(Format::tf32, false, d, uploaded(a, stream), uploaded(b, stream), stream);
  check_product(downloaded(d, 16 * 8, stream), 16, 8, 8);
  check_none(take_findings());
}

TEST_CASE(
    "wgmma multiplies with A from shared memory or registers, either operand transposed, in every swizzle") {
  int major = 0;
  ZT_DONE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major != 9) return;  // the instruction is of sm_90a alone
  configure(1, Policy::random, Order::random);
  const cudaStream_t stream = new_stream();
  for (const int n : {64, 128}) {
    const auto a = operand(Format::bf16, 0, 64, 16), b = operand(Format::bf16, 1, n, 16);
    const auto *da = uploaded(a, stream), *db = uploaded(b, stream);
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const int form : {0, 1, 2, 3, 4, 5}) {
        const WgmmaCase c{n, swizzle, form >= 4, form < 4 && (form & 1) != 0,
                          form < 4 ? (form & 2) != 0 : form == 5};
        CAPTURE(n);
        CAPTURE(swizzle);
        CAPTURE(form);
        auto* d = device_memory<float>(std::size_t(64 * n));
        run_wgmma(c, d, da, db, stream);
        check_product(downloaded(d, std::size_t(64 * n), stream), 64, n, 16);
        check_none(take_findings());
      }
    }
  }
}

TEST_CASE("cp.async reads as many bytes as it is told and fills up with zeros") {
  configure(1, Policy::random, Order::random);
  const cudaStream_t stream = new_stream();
  std::vector<std::uint32_t> x(128);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::uint32_t(i * 0x01010101u + 1);
  const auto* dx = uploaded(x, stream);
  for (const int valid : {0, 4, 8, 12, 16}) {
    auto* y = device_memory<std::uint32_t>(128);
    run_zero_fill(valid, y, dx, stream);
    const auto got = downloaded(y, 128, stream);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK_EQ(got[i], int(i % 4 * 4) < valid ? x[i] : 0u);
  }
  check_none(take_findings());
}

}  // namespace zt::emulator
