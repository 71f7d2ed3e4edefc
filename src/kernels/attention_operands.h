// The two ways attention's products take their operands. Sums are fp32 in both.
//
//   Wide     fp32 operands, one to a word; any storage format
//   Narrow   bf16 operands, two to a word, for processors that multiply and add such pairs (AVX512-BF16): twice
//            the products an instruction. q, k, v and do are bf16 already, so nothing is lost but for p and ds, which
//            are rounded to bf16, as is usual on every backend. Denormal operands count as 0.
//
// A product's k dimension runs over words. An operand is laid out in one of three ways:
//
//   rows        [tile row][word of D]        left, summed over the head size
//   columns     [word of D][tile row]        right, summed over the head size
//   row pairs   [word of tile rows][D]       right, summed over the tile's rows
//
// An odd number of rows or columns is made even with zeros.
#pragma once

#include "kernels/attention_tiles.h"

namespace zt::kernels {

struct Wide {
  static constexpr int kPack = 1;
  static int words(int elements) { return elements; }
  static Floats add_product(Floats sum, float x, Floats row) { return sum + x * row; }

  static void pack_rows(const View& x, std::int64_t first, int rows, int D, float* to) {
    kernels::pack_rows(x, first, rows, D, to);
  }
  static void pack_columns(const View& x, std::int64_t first, int rows, float* to) {
    pack_transposed(x, first, rows, to);
  }
  static void pack_row_pairs(const View& x, std::int64_t first, int rows, int D, float* to) {
    kernels::pack_rows(x, first, rows, D, to);
  }
  // The first `rows` rows of a tile of scores as a left operand, summed over its columns or over its rows. `spare`
  // has room for kTile * kTile / 2 words and may be what is returned.
  static Left by_rows(const float* s, int, float*) { return {s, kTile, 1}; }
  static Left by_columns(const float* s, int, float*) { return {s, 1, kTile}; }
};

#ifdef __AVX512BF16__
struct Narrow {
  static constexpr int kPack = 2;
  static int words(int elements) { return (elements + 1) / 2; }
  static Floats add_product(Floats sum, float x, Floats row) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_ps(x), (__m512bh)row);
  }

  static void pack_rows(const View& x, std::int64_t first, int rows, int D, float* to) {
    const std::size_t used = sizeof(bf16) * std::size_t(x.cols), all = sizeof(bf16) * std::size_t(D);
    for (int r = 0; r < rows; ++r) {
      char* const row = reinterpret_cast<char*>(to + r * D / 2);
      std::memcpy(row, row_of(x, first + r), used);
      std::memset(row + used, 0, all - used);
    }
  }
  static void pack_columns(const View& x, std::int64_t first, int rows, float* to) {
    const int d = int(x.cols), count = words(d);
    for (int r = 0; r < rows; r += kLanes) {
      for (int c = 0; c < count; c += kLanes) {
        Floats block[kLanes] = {};
        for (int i = 0; i < std::min(kLanes, rows - r); ++i)
          std::memcpy(&block[i], row_of(x, first + r + i) + 2 * c,
                      sizeof(bf16) * std::size_t(std::min(2 * kLanes, d - 2 * c)));
        transpose(block);
        for (int i = 0; i < std::min(kLanes, count - c); ++i) store(to + (c + i) * kTile + r, block[i]);
      }
    }
  }
  static void pack_row_pairs(const View& x, std::int64_t first, int rows, int D, float* to) {
    const int d = int(x.cols);
    for (int r = 0; r < rows; r += 2) {
      const bf16* const low = row_of(x, first + r);
      const bf16* const high = r + 1 < rows ? row_of(x, first + r + 1) : nullptr;
      for (int c = 0; c < D; c += kLanes) {
        const int count = std::min(kLanes, d - c);
        store(to + r / 2 * D + c, paired(bits(low + c, count), high ? bits(high + c, count) : Shorts{}));
      }
    }
  }
  static Left by_rows(const float* s, int rows, float* spare) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kTile; v += kLanes) {
        const Shorts row = rounded(load(s + r * kTile + v));
        std::memcpy(spare + (r * kTile + v) / 2, &row, sizeof row);
      }
    return {spare, kTile / 2, 1};
  }
  static Left by_columns(const float* s, int rows, float* spare) {
    for (int r = 0; r < rows; r += 2)
      for (int v = 0; v < kTile; v += kLanes) {
        const Shorts low = rounded(load(s + r * kTile + v));
        const Shorts high = r + 1 < rows ? rounded(load(s + (r + 1) * kTile + v)) : Shorts{};
        store(spare + r / 2 * kTile + v, paired(low, high));
      }
    return {spare, 1, kTile};
  }

 private:
  static const bf16* row_of(const View& x, std::int64_t row) {
    return static_cast<const bf16*>(x.data) + row * x.stride;
  }
  static Shorts rounded(Floats x) { return (Shorts)_mm512_cvtneps_pbh(x); }
  static Shorts bits(const bf16* p, int count) {
    Shorts lanes{};
    std::memcpy(&lanes, p, sizeof(bf16) * std::size_t(std::clamp(count, 0, kLanes)));
    return lanes;
  }
  static Floats paired(Shorts low, Shorts high) {
    return std::bit_cast<Floats>(__builtin_convertvector(low, Words) | __builtin_convertvector(high, Words)
                                                                           << 16);
  }
};
#endif

// Calls f with the operands for tensors that are all bf16 (or not).
template <typename F>
void with_operands([[maybe_unused]] bool all_bf16, F f) {
#ifdef __AVX512BF16__
  if (all_bf16) return f(Narrow());
#endif
  f(Wide());
}

}  // namespace zt::kernels
