// Each instruction group against the same arithmetic on the host.
#include "ptx_conformance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cuda_emulator/tests/program.h"
#include "cuda_emulator/tests/record.h"

namespace zt::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Words = std::vector<u32>;

u32 random_word(u64 index) {  // SplitMix64, figure 16 of Steele, Lea & Flood 2014
  u64 z = (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return u32((z ^ z >> 31) >> 16);
}

constexpr int kBlocks = 3;

Words random_words() {
  Words in(kBlocks * 32 * kWords);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = random_word(i);
  return in;
}

// Floats of both signs between 2^-8 and 2^8, whole numbers among them.
Words random_floats() {
  Words in = random_words();
  for (u32& w : in) {
    const float x =
        std::ldexp(1.f + float(w & 0xffff) / 65536.f, int(w >> 16 & 15) - 8) * (w >> 31 ? -1.f : 1.f);
    w = std::bit_cast<u32>(w >> 20 & 1 ? std::round(x) + 0.5f : x);
  }
  return in;
}

using Run = void (*)(u32*, const u32*, int, cudaStream_t);

Words result_of(Run run, const Words& in, std::size_t out_words, int blocks = kBlocks, u64 seed = 1,
                Sameness sameness = Sameness::exact) {
  configure(seed, Policy::random, Order::random);
  const cudaStream_t stream = new_stream();
  auto* x = device_memory<u32>(in.size());
  auto* y = device_memory<u32>(out_words);
  ZT_DONE(cudaMemcpyAsync(x, in.data(), in.size() * 4, cudaMemcpyHostToDevice, stream));
  run(y, x, blocks, stream);
  Words out(out_words);
  ZT_DONE(cudaMemcpyAsync(out.data(), y, out_words * 4, cudaMemcpyDeviceToHost, stream));
  ZT_DONE(cudaStreamSynchronize(stream));
  ZT_DONE(cudaFree(x));
  ZT_DONE(cudaFree(y));
  ZT_DONE(cudaStreamDestroy(stream));
  check_none(take_findings());
  record(out.data(), out.size() * 4, sameness);
  return out;
}

// f(thread's 16 words, its 16 results) says what must come out.
template <typename F>
void check_each(Run run, const Words& in, F f) {
  const Words out = result_of(run, in, in.size());
  for (std::size_t t = 0; t < in.size() / kWords; ++t) {
    u32 want[kWords] = {};
    f(&in[t * kWords], want, u32(t % 32));
    for (int i = 0; i < kWords; ++i) {
      CAPTURE(t);
      CAPTURE(i);
      CHECK_EQ(out[t * kWords + std::size_t(i)], want[i]);
    }
  }
}

float as_float(u32 x) { return std::bit_cast<float>(x); }

// Rounds to `keep` bits of mantissa below the leading one, ties to even, by way of exact double arithmetic.
double round_mantissa(double x, int keep, int least_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e = 0;
  std::frexp(x, &e);
  const double unit = std::ldexp(1.0, std::max(e - 1, least_exponent) - keep);
  return std::nearbyint(x / unit) * unit;
}
u32 bf16_bits(double x) { return std::bit_cast<u32>(float(round_mantissa(x, 7, -126))) >> 16; }
u32 f16_bits(double x) {
  const double r = round_mantissa(x, 10, -14);
  const u32 sign = std::signbit(r) ? 0x8000 : 0;
  const double m = std::fabs(r);
  if (m >= 65536) return sign | 0x7c00;
  if (m < std::ldexp(1.0, -14)) return sign | u32(m * std::ldexp(1.0, 24));
  int e = 0;
  const double fraction = std::frexp(m, &e) * 2 - 1;
  return sign | u32(e + 14) << 10 | u32(fraction * 1024);
}
double bf16(u32 word) { return as_float(bf16_bits(as_float(word)) << 16); }
double f16(u32 word) { return round_mantissa(as_float(word), 10, -14); }

}  // namespace

TEST_CASE("integers of 32 bits") {
  check_each(run_integers, random_words(), [](const u32* x, u32* y, u32) {
    const u32 a = x[0], b = x[1], c = x[2];
    const int s = int(a), t = int(b);
    const auto at_most = [](std::int64_t v) {
      return u32(std::clamp<std::int64_t>(v, INT32_MIN, INT32_MAX));
    };
    y[0] = a + b * c;
    y[1] = u32(u64{a} * b >> 32);
    y[2] = u32(std::int64_t{s} * t >> 32);
    y[3] = a / (b | 1);
    y[4] = u32(s / (t | 1));
    y[5] = a % (b | 1);
    y[6] = u32(s % (t | 1));
    y[7] = u32(std::min(s, t)) ^ std::max(a, b);
    y[8] = u32(std::abs(s)) - std::min(a, b);
    y[9] = u32(s >> (c & 31)) + (a >> (c & 31)) + (a << (c & 31));
    y[10] = u32(std::abs(std::int64_t{s} - t)) + c + u32(std::abs(std::int64_t{a} - b)) + c;
    y[11] = u32(u64{a} * b >> 32) + c;
    y[12] = (a + b) ^ u32((u64{a} + b) >> 32);
    y[13] = at_most(std::int64_t{s} + t);
    y[14] = c;
    for (int i = 0; i < 32; i += 8) y[14] += u32(int(std::int8_t(a >> i)) * int(std::int8_t(b >> i)));
    y[15] = u32(int(std::int16_t(a)) * int(std::int16_t(b))) + u32(std::uint16_t(a)) * u32(std::uint16_t(b));
  });
}

TEST_CASE("integers of 64 bits") {
  check_each(run_wide_integers, random_words(), [](const u32* x, u32* y, u32) {
    const u64 a = u64{x[0]} << 32 | x[1], b = u64{x[2]} << 32 | x[3];
    const auto s = std::int64_t(a), t = std::int64_t(b);
    const u64 r[8] = {a * b + 7,
                      u64((unsigned __int128)(a)*b >> 64),
                      u64(__int128(s) * t >> 64),
                      a / (b | 1),
                      u64(s / (t | 1)),
                      a % (b | 1),
                      u64(s >> (x[4] & 63)) ^ (a << (x[4] & 63)),
                      u64(std::min(s, t)) - std::max(a, b)};
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = u32(r[i]);
      y[2 * i + 1] = u32(r[i] >> 32);
    }
  });
}

TEST_CASE("bits and bytes") {
  check_each(run_bits, random_words(), [](const u32* x, u32* y, u32) {
    const u32 a = x[0], b = x[1], c = x[2];
    const auto reversed = [](u32 v) {
      u32 r = 0;
      for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
      return r;
    };
    const auto permuted = [&](u32 selector) {
      u32 r = 0;
      for (int i = 0; i < 4; ++i) {
        const u32 s = selector >> (4 * i) & 15, byte = u32((u64{b} << 32 | a) >> (8 * (s & 7))) & 255;
        r |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
      }
      return r;
    };
    const auto ones = [](u32 n) { return n >= 32 ? ~0u : (1u << n) - 1; };
    y[0] = u32(std::popcount(a)) + 100 * u32(std::countl_zero(b));
    y[1] = reversed(a);
    y[2] = permuted(c & 0x7777);
    y[3] = u32((u64{b} << 32 | a) << (c & 31) >> 32);
    y[4] = u32((u64{b} << 32 | a) >> (c & 31));
    y[5] = (a & b) | (~a & c);
    const u32 from = b & 31, n = c & 31;
    y[6] = a >> from & ones(n);
    if (n != 0) {
      const u32 top = std::min(from + n - 1, 31u);
      y[7] = y[6] | (a >> top & 1 ? ~ones(top - from + 1) : 0);
    }
    const u32 field = ones(c >> 5 & 31) << (c & 31);
    y[8] = (b & ~field) | (a << (c & 31) & field);
    y[9] = permuted(c & 0xffff);
    y[10] = a == 0 ? ~0u : 31 - u32(std::countl_zero(a));
    const u32 magnitude = int(b) < 0 ? ~b : b;
    y[11] = magnitude == 0 ? ~0u : u32(std::countl_zero(magnitude));
    y[12] = u32(std::popcount(u64{a} << 32 | b)) + 100 * u32(std::countl_zero(u64{a} << 7));
    y[13] = a == 0 ? 0 : u32(std::countr_zero(a)) + 1;
    y[14] = (a & 63) >= 32 ? 0 : ones(b & 63) << (a & 63);
    y[15] = (a & 1) == 0;
  });
}

TEST_CASE("floats, in every rounding") {
  // The neighbour in a direction, found from the exact value in long double.
  const auto directed = [](long double exact, int direction) {
    float f = float(exact);
    if (direction < 0 && f == 0) return -0.f;  // x - x is -0 when rounding down
    if (direction < 0 && f > exact) f = std::nextafter(f, -INFINITY);
    if (direction > 0 && f < exact) f = std::nextafter(f, INFINITY);
    if (direction == 0 && std::fabs((long double)(f)) > std::fabs(exact)) f = std::nextafter(f, 0.f);
    return f;
  };
  check_each(run_floats, random_floats(), [&](const u32* x, u32* y, u32) {
    const float a = as_float(x[0]), b = as_float(x[1]), c = as_float(x[2]);
    const long double la = a, lb = b, lc = c;
    const float r[kWords] = {std::fma(a, b, c),
                             directed(la + lb, 0),
                             directed(la * lb, 1),
                             directed(la + lc, -1),
                             a / b,
                             std::sqrt(std::fabs(a)),
                             1.f / a,
                             std::fmin(a, b),
                             std::fmax(b, c),
                             std::copysign(a, b),
                             std::clamp(a, 0.f, 1.f),
                             directed(la * lb + lc, 0),
                             std::nearbyint(a),
                             std::floor(b),
                             std::ceil(c),
                             std::trunc(a)};
    for (int i = 0; i < kWords; ++i) y[i] = std::bit_cast<u32>(r[i] == 0 && i == 10 ? 0.f : r[i]);
  });
}

TEST_CASE("doubles") {
  check_each(run_doubles, random_floats(), [](const u32* x, u32* y, u32) {
    const double a = as_float(x[0]), b = as_float(x[1]), c = as_float(x[2]);
    const double r[8] = {std::fma(a, b, c), a / b,         std::sqrt(std::fabs(a)), std::fma(a, b, -c),
                         std::fmin(a, b),   std::floor(c), double(int(a)) + b,      1.0 / c};
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = u32(std::bit_cast<u64>(r[i]));
      y[2 * i + 1] = u32(std::bit_cast<u64>(r[i]) >> 32);
    }
  });
}

TEST_CASE("bf16 and f16, single and in pairs") {
  check_each(run_halves, random_floats(), [](const u32* x, u32* y, u32) {
    const double a = bf16(x[0]), b = bf16(x[1]), c = bf16(x[2]), d = f16(x[0]), e = f16(x[1]), f = f16(x[2]);
    const double r[8] = {a + b, a - b, a * b, a * b + c, std::fmax(a, b), std::fmin(a, b), -a, std::fabs(b)};
    const double s[8] = {d + e, d - e, d * e, d * e + f, std::fmax(d, e), std::fmin(d, e), -d, std::fabs(e)};
    for (int i = 0; i < 8; ++i) {
      y[i] = bf16_bits(r[i]);
      y[8 + i] = f16_bits(s[i]);
    }
  });
  check_each(run_half_pairs, random_floats(), [](const u32* x, u32* y, u32) {
    for (int h = 0; h < 2; ++h) {
      const double a = bf16(x[h]), b = bf16(x[2 + h]), c = bf16(x[4 + h]), d = f16(x[h]), e = f16(x[2 + h]),
                   f = f16(x[4 + h]);
      const double r[8] = {a + b,           a - b,           a * b, a * b + c,
                           std::fmax(a, b), std::fmin(a, b), -a,    std::max(a * b + c, 0.0)};
      const double s[8] = {d + e,           d - e,           d * e, d * e + f,
                           std::fmax(d, e), std::fmin(d, e), -d,    std::max(d * e + f, 0.0)};
      for (int i = 0; i < 8; ++i) {
        y[i] |= bf16_bits(r[i]) << (16 * h);
        y[8 + i] |= f16_bits(s[i]) << (16 * h);
      }
    }
  });
}

TEST_CASE("comparisons, also with numbers that are none") {
  check_each(run_comparisons, random_floats(), [](const u32* x, u32* y, u32 lane) {
    const float a = as_float(x[0]), b = lane % 5 == 0 ? NAN : as_float(x[1]);
    const int s = int(x[0]), t = int(x[1]);
    y[0] = u32(a < b) | u32(a <= b) << 1 | u32(a > b) << 2 | u32(a >= b) << 3 | u32(a == b) << 4 |
           u32(a != b) << 5;
    y[1] = u32(!(a < b)) | u32(!(a >= b)) << 1;
    y[2] = u32(s < t) | u32(x[0] < x[1]) << 1 | u32(s == t) << 2;
    y[3] = s >= 0 ? x[2] : x[3];
    y[4] = a < b ? ~0u : 0;
    y[5] = lane % 5 == 0;
    y[6] = s < t && (x[2] & 1) != 0;
    const bool none = lane % 5 == 0;
    y[7] = u32(!none && bf16(x[0]) < bf16(x[1])) | u32(none || f16(x[0]) < f16(x[1])) << 1;
  });
}

TEST_CASE("functions, within what their documents allow") {
  const Words in = random_floats();
  const Words out = result_of(run_functions, in, in.size(), kBlocks, 1, Sameness::near);
  for (std::size_t t = 0; t < in.size() / kWords; ++t) {
    const double a = as_float(in[t * kWords]), p = std::fabs(a) + 0.01;
    const double want[kWords] = {std::exp2(a),     std::log2(p), std::sin(a),      std::cos(a),
                                 1 / std::sqrt(p), 1 / p,        std::exp(a),      std::log(p),
                                 std::tanh(a),     std::erf(a),  std::sqrt(p),     std::sin(a),
                                 std::pow(p, 1.5), std::tanh(a), std::exp2(a * 3), std::exp(a)};
    for (int i = 0; i < kWords; ++i) {
      const double got = as_float(out[t * kWords + std::size_t(i)]);
      CAPTURE(a);
      CAPTURE(i);
      if (want[i] > 3e38) {
        CHECK(std::isinf(got));
      } else if (std::fabs(want[i]) > 2e-38) {
        CHECK(std::fabs(got - want[i]) <= 1e-4 * std::fabs(want[i]) + 1e-5);
      } else {
        CHECK(std::fabs(got) <= 2e-38);
      }
    }
  }
}

TEST_CASE("memory of every kind and width") {
  const Words in = random_words();
  constexpr u32 kConstants[8] = {3, 1, 4, 1, 5, 9, 2, 6};
  check_each(run_memory, in, [&](const u32* x, u32* y, u32 t) {
    const u32* block = x - t * kWords;
    u32 shared[128];
    for (u32 l = 0; l < 32; ++l) std::memcpy(&shared[l * 4], block + l * kWords, 16);
    const u32 other = 31 - t;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(shared);
    y[0] = bytes[t * 3];
    y[1] = u32(std::int8_t(bytes[t * 3 + 1]));
    std::uint16_t halves[2];
    std::memcpy(halves, bytes + other * 2, 4);
    y[2] = halves[0];
    y[3] = u32(std::int16_t(halves[1]));
    y[4] = shared[other * 4] ^ shared[other * 4 + 1];
    y[5] = x[0] + x[1] + x[2] + x[3];
    y[6] = x[x[5] % 8] + x[5] % 8;
    y[7] = kConstants[x[6] % 8];
    y[8] = 10 * (x[7] % 4 + 1);
    y[9] = t % 2 == 0 ? shared[other * 4 + 1] : x[1];
    y[10] = u32((u64{shared[other * 4 + 1]} << 32 | shared[other * 4]) >> 16);
    y[11] = x[3];
    for (int i = 12; i < kWords; ++i) y[i] = x[i];
  });
}

TEST_CASE("atomics") {
  const Words in = random_words();
  check_each(run_atomics, in, [&](const u32* x, u32* y, u32 t) {
    const u32* block = x - t * kWords;
    u64 wide = 0;
    y[2] = ~0u;
    for (u32 l = 0; l < 32; ++l) {
      const u32* w = block + l * kWords;
      y[0] += w[0];
      y[1] = std::max(y[1], w[1]);
      y[2] = std::min(y[2], w[2]);
      y[3] ^= w[3];
      y[4] |= w[4];
      wide += w[5];
    }
    y[5] = 32 % 10;
    y[6] = 1;
    y[8] = std::bit_cast<u32>(31.f * 16.f);
    y[9] = u32(wide);
    y[10] = u32(wide >> 32);
  });
}

TEST_CASE("shuffles, votes, matches and reductions of a warp") {
  check_each(run_warps, random_words(), [](const u32* x, u32* y, u32 t) {
    const u32* block = x - t * kWords;
    const auto a = [&](u32 lane) { return block[lane * kWords]; };
    y[0] = a(5);
    y[1] = a(t ^ 3);
    y[2] = t % 16 >= 2 ? a(t - 2) : a(t);
    y[3] = t % 8 + 3 < 8 ? a(t + 3) : a(t);
    bool any_zero = false;
    int most = INT32_MIN;
    for (u32 l = 0; l < 32; ++l) {
      y[4] |= (a(l) & 1) << l;
      any_zero |= a(l) == 0;
      y[6] |= u32(a(l) % 4 == a(t) % 4) << l;
      y[8] += a(l);
      most = std::max(most, int(a(l)));
      y[10] ^= a(l);
    }
    y[5] = u32(any_zero) | u32(!any_zero) << 1;
    y[7] = ~0u + 1;
    y[9] = u32(most);
    y[11] = t < 20 ? (1u << 20) - 1 : 0;
    y[12] = t >= 16 ? a(t ^ 1) : a(t);
    y[13] = (1u << t) - 1;
    y[14] = a(7);
  });
}

TEST_CASE("named barriers order who takes part") {
  Words in(kBlocks * 128);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = random_word(i);
  for (u64 seed = 1; seed <= 5; ++seed) {
    const Words out = result_of(run_named_barriers, in, in.size(), kBlocks, seed);
    for (int b = 0; b < kBlocks; ++b) {
      const u32* s = &in[std::size_t(b) * 128];
      u32 v[128], odd = 0, any = 0;
      for (u32 t = 0; t < 128; ++t) {
        v[t] = s[t / 64 * 64 + (t + 1) % 64] + (t >= 64 ? s[t - 64] : 0);
        odd += v[t] & 1;
        any |= v[t] == 7;
      }
      for (u32 t = 0; t < 128; ++t) CHECK_EQ(out[std::size_t(b) * 128 + t], v[t] + odd * 3 + any * 5 + 7);
    }
  }
}

TEST_CASE("branches that part a warp, and tables of them") {
  check_each(run_branches, random_words(), [](const u32* x, u32* y, u32) {
    u32 n = x[0] % 1000 + 1, steps = 0;
    for (; n != 1 && steps < 200; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    y[0] = steps;
    y[1] = 11 * (x[1] % 3 + 1);
    const u32 w = x[3];
    const u32 cases[6] = {w, w * 3, w / 5, ~w, w ^ x[4], 1};
    y[2] = cases[x[2] % 6];
    for (int i = 3; i < kWords; ++i) y[i] = x[i];
  });
}

TEST_CASE("a fence and an atomic order blocks: the last one may read what the others wrote") {
  Words in(7);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = random_word(i);
  u32 sum = 0;
  for (const u32 w : in) sum += w;
  for (u64 seed = 1; seed <= 5; ++seed) CHECK_EQ(result_of(run_fences, in, 8, 7, seed)[0], sum);
}

TEST_CASE("conversions between formats") {
  check_each(run_conversions, random_floats(), [](const u32* x, u32* y, u32) {
    const float a = as_float(x[0]);
    const double d = a;
    y[0] = u32(int(std::nearbyint(d)));
    y[1] = u32(int(std::trunc(d)));
    y[2] = u32(int(std::floor(d)));
    y[3] = d <= 0 ? 0 : u32(std::ceil(d));
    y[4] = std::bit_cast<u32>(float(int(x[1])));
    float toward_zero = float(x[1]);
    if (double(toward_zero) > double(x[1])) toward_zero = std::nextafter(toward_zero, 0.f);
    y[5] = std::bit_cast<u32>(toward_zero);
    y[6] = std::bit_cast<u32>(float(u64{x[1]} << 20 | x[2]));
    const u32 cut = x[0] >> 16;
    const bool inexact = (x[0] & 0xffff) != 0;
    y[7] = cut | (a > 0 && inexact ? cut + 1 : cut) << 16;
    // A f16 at most a, and the one towards zero: step from the nearest.
    const auto f16_value = [](u32 bits) {
      const double m = bits & 0x3ff, e = double(bits >> 10 & 31);
      return (bits & 0x8000 ? -1 : 1) * (e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, int(e) - 25));
    };
    u32 down = f16_bits(d), zero = down;
    if (f16_value(down) > d) down += a > 0 ? ~0u : 1;
    if (std::fabs(f16_value(zero)) > std::fabs(d)) --zero;
    y[8] = (down & 0xffff) | zero << 16;
    y[9] = u32(std::int8_t(x[1])) ^ (x[2] & 255);
    y[10] = std::bit_cast<u32>(float(f16_value(x[1] & 0x7bff)));
    y[11] = std::bit_cast<u32>(float(d * 1.000000001));
    y[12] = u32(std::int64_t(a));
    y[13] = u32(int(d * 3));
    y[14] = (x[0] + 0x1000) & 0xffffe000;
    y[15] = u32(std::clamp(int(x[1]) >> 20, 0, 255));
  });
}

}  // namespace zt::emulator
