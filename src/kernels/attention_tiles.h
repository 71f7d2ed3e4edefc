// What forward and backward of attention share: tiles of queries and keys in scratch memory, their products,
// and which keys a query sees.
//
// A tile has kTile rows; its columns (the head size d) are padded to D, a multiple of 16, with zeros. Tiles
// of keys start at multiples of kTile from the start of the document, so a document's numbers do not depend
// on where it lies in the row. Rows and lanes beyond the end hold anything and never reach a result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu_math.h"
#include "kernels/loops.h"

namespace zt::kernels {

constexpr int kTile = 64;
constexpr int kTileVectors = kTile / kLanes;
constexpr int kRowsAtOnce = 8;  // 8 rows x 2 vectors of sums stay in registers

inline int padded(int d) { return (d + kLanes - 1) / kLanes * kLanes; }
inline int rows_up(int rows) { return (rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce; }

// The left operand of a product: word (i, k) is at data[i * row + k * step]. What words hold: attention_operands.h.
struct Left {
  const float* data;
  std::int64_t row, step;
};

// c (kRowsAtOnce rows, 16 V columns) = or += sum_k a_ik b_kn.
template <typename Operands, int V>
inline void multiply_block(int k_count, Left a, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
                           bool add) {
  Floats sum[kRowsAtOnce][V];
  for (int i = 0; i < kRowsAtOnce; ++i)
    for (int v = 0; v < V; ++v) sum[i][v] = add ? load(c + i * ldc + v * kLanes) : Floats{};
  for (int k = 0; k < k_count; ++k) {
    Floats row[V];
    for (int v = 0; v < V; ++v) row[v] = load(b + k * ldb + v * kLanes);
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const float x = a.data[i * a.row + k * a.step];
      for (int v = 0; v < V; ++v) sum[i][v] = Operands::add_product(sum[i][v], x, row[v]);
    }
  }
  for (int i = 0; i < kRowsAtOnce; ++i)
    for (int v = 0; v < V; ++v) store(c + i * ldc + v * kLanes, sum[i][v]);
}

// c (m rows, rounded up to 8; n columns, a multiple of 16) = or += a b, summed over k_count words.
template <typename Operands>
void multiply(int m, int n, int k_count, Left a, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
              bool add) {
  for (int col = 0; col < n; col += 2 * kLanes) {
    for (int row = 0; row < m; row += kRowsAtOnce) {
      const Left rows{a.data + row * a.row, a.row, a.step};
      if (n - col >= 2 * kLanes) {
        multiply_block<Operands, 2>(k_count, rows, b + col, ldb, c + row * ldc + col, ldc, add);
      } else {
        multiply_block<Operands, 1>(k_count, rows, b + col, ldb, c + row * ldc + col, ldc, add);
      }
    }
  }
}

// The d columns of one head.
inline View head_of(const View& x, int head, int d) { return x.columns(std::int64_t{head} * d, d); }

// Rows [first, first + rows) of x, widened, to `to` with D columns each.
template <typename T>
void pack_rows(const View& x, std::int64_t first, int rows, int D, float* to) {
  const int d = int(x.cols);
  for (int r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(x.data) + (first + r) * x.stride;
    for (int c = 0; c < D; c += kLanes) store(to + r * D + c, load_some(row + c, std::min(kLanes, d - c)));
  }
}

// The same rows as columns: to[c * kTile + r].
template <typename T>
void pack_transposed(const View& x, std::int64_t first, int rows, float* to) {
  const int d = int(x.cols);
  for (int r = 0; r < rows; r += kLanes) {
    const int count = std::min(kLanes, rows - r);
    for (int c = 0; c < d; c += kLanes) {
      Floats block[kLanes] = {};
      for (int i = 0; i < count; ++i)
        block[i] = load_some(static_cast<const T*>(x.data) + (first + r + i) * x.stride + c,
                             std::min(kLanes, d - c));
      transpose(block);
      for (int i = 0; i < std::min(kLanes, d - c); ++i) store(to + (c + i) * kTile + r, block[i]);
    }
  }
}

inline void pack_rows(const View& x, std::int64_t first, int rows, int D, float* to) {
  with_type(x.dtype, "attention", [&](auto type) { pack_rows<decltype(type)>(x, first, rows, D, to); });
}
inline void pack_transposed(const View& x, std::int64_t first, int rows, float* to) {
  with_type(x.dtype, "attention", [&](auto type) { pack_transposed<decltype(type)>(x, first, rows, to); });
}

// Row r of a tile times `factor` to row `row` of x, rounded.
inline void unpack_row(const float* from, float factor, const View& x, std::int64_t row) {
  const int d = int(x.cols);
  with_type(x.dtype, "attention", [&](auto type) {
    auto* const to = static_cast<decltype(type)*>(x.data) + row * x.stride;
    for (int c = 0; c < d; c += kLanes) store_some(to + c, load(from + c) * factor, std::min(kLanes, d - c));
  });
}

// Which keys of the tile [key, key + keys) the queries [query, query + queries) of the same document see.
struct Sight {
  std::int64_t query, key;
  int queries, keys, window;

  bool none() const { return key > query + queries - 1 || (window > 0 && key + keys - 1 <= query - window); }
  bool all() const {
    return keys == kTile && key + keys - 1 <= query && (window <= 0 || key > query + queries - 1 - window);
  }
  // Query r sees columns [low(r), high(r)) of the tile; none where high <= low.
  int low(int r) const {
    return window <= 0 ? 0 : int(std::clamp<std::int64_t>(query + r - window + 1 - key, 0, keys));
  }
  int high(int r) const { return int(std::clamp<std::int64_t>(query + r + 1 - key, 0, keys)); }
};

// All ones in the lanes that stand for columns [low, high), the vector starting at column `first`.
inline Ints lanes_within(int first, int low, int high) {
  Ints column;
  for (int l = 0; l < kLanes; ++l) column[l] = l;
  column += first;
  return (column >= low) & (column < high);
}

// What dropout multiplies the probabilities of one query and the keys of one tile with: 0 or 1 / (1 - p). The
// random word of (row, head, distance) is word distance % 4 at index (row heads + head) 2^24 + distance / 4.
inline void dropout_factors(const AttentionShape& s, std::int64_t row, int head, std::int64_t query,
                            std::int64_t key, int keys, float* factors) {
  const float kept = 1.f / (1.f - s.dropout);
  const std::int64_t number = s.first_row + (s.row_N ? s.row_N.as<const std::int32_t>()[row] : row);
  const std::uint64_t base = (std::uint64_t(number) * std::uint64_t(s.heads) + std::uint64_t(head)) << 24;
  std::fill_n(factors, kTile, 0.f);
  std::int64_t quad = -1;
  std::array<std::uint32_t, 4> words{};
  for (int j = 0; j < keys && key + j <= query; ++j) {
    const std::int64_t distance = query - key - j;
    if (distance / 4 != quad) words = s.random.words(base + std::uint64_t(quad = distance / 4));
    factors[j] = uniform(words[std::size_t(distance % 4)]) < s.dropout ? 0.f : kept;
  }
}

// One document's part of a call, cut into tasks by the callers.
struct Document {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

}  // namespace zt::kernels
