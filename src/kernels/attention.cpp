#include "kernels/attention.h"

#include <cfloat>
#include <cmath>
#include <vector>

#include "kernels/attention_operands.h"
#include "kernels/attention_scratch.h"
#include "kernels/attention_tiles.h"

namespace zt::kernels {
namespace {

constexpr int kQueryTiles = 4;  // a tile of keys is packed once for this many tiles of queries
constexpr int kQueries = kQueryTiles * kTile;

// One task: up to kQueries queries of one head.
struct ForwardTask {
  const AttentionShape& shape;
  View q, k, v, o;     // the head's columns; row 0 of q and o is token `row_offset` of k and v
  float* lse;          // of token 0, or null
  Document document;   // tokens of k and v
  std::int64_t query;  // the first, a token
  int queries, head;
  std::int64_t row_offset;
};

struct ForwardTiles {
  float *q, *o, *k_T, *v, *s, *p, *most, *sum;  // sum: 16 partial sums a row

  static std::size_t size(int D) {
    return std::size_t(2 * kQueries * D + 2 * kTile * D + 3 * kTile * kTile / 2 + kQueries * (1 + kLanes));
  }
  ForwardTiles(float* memory, int D)
      : q(memory),
        o(q + kQueries * D),
        k_T(o + kQueries * D),
        v(k_T + kTile * D),
        s(v + kTile * D),
        p(s + kTile * kTile),
        most(p + kTile * kTile / 2),
        sum(most + kQueries) {}
};

// Largest score of each of sixteen rows of s.
template <bool kMasked>
Floats row_maxima(const float* s, const Sight& sight, int first_row) {
  Floats most[kLanes];
  for (int r = 0; r < kLanes; ++r) {
    most[r] = splat(-FLT_MAX);
    const int low = sight.low(first_row + r), high = sight.high(first_row + r);
    for (int v = 0; v < kTileVectors; ++v) {
      Floats x = load(s + (first_row + r) * kTile + v * kLanes);
      if (kMasked) x = lanes_within(v * kLanes, low, high) != 0 ? x : splat(-FLT_MAX);
      most[r] = larger(x, most[r]);
    }
  }
  return largest_of(most);
}

// Turns a row of scores into e^(scale (s - most)), which is exactly 1 at the largest; returns partial sums.
template <bool kMasked>
Floats exponentials(float* s, float scale, float most, int low, int high) {
  Floats sum{};
  for (int v = 0; v < kTileVectors; ++v) {
    Floats p = exp_of((load(s + v * kLanes) - most) * scale);
    if (kMasked) p = lanes_within(v * kLanes, low, high) != 0 ? p : Floats{};
    store(s + v * kLanes, p);
    sum += p;
  }
  return sum;
}

void scale_row(float* row, int D, float factor) {
  for (int c = 0; c < D; c += kLanes) store(row + c, load(row + c) * factor);
}

// Online softmax over one tile of scores: s becomes p relative to the new maxima; o and sum follow them.
// Rows start with most = -FLT_MAX and sum = 0, so a row that sees no key of a tile stays as it is.
template <bool kMasked>
void soften(float* s, float scale, const Sight& sight, float* most, float* sum, float* o, int D) {
  for (int first = 0; first < sight.queries; first += kLanes) {
    const Floats before = load(most + first);
    const Floats now = larger(row_maxima<kMasked>(s, sight, first), before);
    store(most + first, now);
    float shrink[kLanes];
    store(shrink, exp_of((before - now) * scale));
    for (int r = first; r < std::min(first + kLanes, sight.queries); ++r) {
      const float factor = shrink[r - first];
      const Floats added = exponentials<kMasked>(s + r * kTile, scale, most[r], sight.low(r), sight.high(r));
      store(sum + r * kLanes, load(sum + r * kLanes) * factor + added);
      if (factor != 1.f) scale_row(o + r * D, D, factor);
    }
  }
}

void drop(const ForwardTask& t, const Sight& sight, float* s) {
  alignas(64) float factors[kTile];
  for (int r = 0; r < sight.queries; ++r) {
    const std::int64_t query = sight.query + r;
    dropout_factors(t.shape, query, t.head, query, sight.key, sight.keys, factors);
    for (int j = 0; j < kTile; ++j) s[r * kTile + j] *= factors[j];
  }
}

template <typename Operands>
void attend(const ForwardTask& t, const ForwardTiles& tiles, int first, const Sight& sight) {
  const int d = t.shape.head_size, D = padded(d);
  float* const o = tiles.o + first * D;
  const int row = D / Operands::kPack;
  multiply<Operands>(sight.queries, kTile, Operands::words(d), {tiles.q + first * row, row, 1}, tiles.k_T,
                     kTile, tiles.s, kTile, false);
  float* const most = tiles.most + first;
  float* const sum = tiles.sum + first * kLanes;
  sight.all() ? soften<false>(tiles.s, t.shape.scale, sight, most, sum, o, D)
              : soften<true>(tiles.s, t.shape.scale, sight, most, sum, o, D);
  if (t.shape.dropout > 0.f) drop(t, sight, tiles.s);
  multiply<Operands>(sight.queries, D, Operands::words(sight.keys),
                     Operands::by_rows(tiles.s, sight.queries, tiles.p), tiles.v, D, o, D, true);
}

void finish(const ForwardTask& t, const ForwardTiles& tiles) {
  const int D = padded(t.shape.head_size);
  for (int r = 0; r < t.queries; ++r) {
    const float sum = sum_of(load(tiles.sum + r * kLanes));
    unpack_row(tiles.o + r * D, 1.f / sum, t.o, t.query + r - t.row_offset);
    if (t.lse != nullptr) t.lse[t.query + r] = t.shape.scale * tiles.most[r] + std::log(sum);
  }
}

template <typename Operands>
void run_with(const ForwardTask& t, float* memory) {
  const int D = padded(t.shape.head_size), window = t.shape.window;
  const ForwardTiles tiles(memory, D);
  Operands::pack_rows(t.q, t.query - t.row_offset, t.queries, D, tiles.q);
  std::fill_n(tiles.o, rows_up(t.queries) * D, 0.f);
  std::fill_n(tiles.sum, kQueries * kLanes, 0.f);
  std::fill_n(tiles.most, kQueries, -FLT_MAX);
  std::int64_t key = t.document.begin;
  if (window > 0) key += std::max<std::int64_t>(0, t.query - window + 1 - key) / kTile * kTile;
  for (; key < t.query + t.queries; key += kTile) {
    const int keys = int(std::min<std::int64_t>(kTile, t.document.end - key));
    Operands::pack_columns(t.k, key, keys, tiles.k_T);
    Operands::pack_row_pairs(t.v, key, keys, D, tiles.v);
    for (int first = 0; first < t.queries; first += kTile) {
      const Sight sight{t.query + first, key, std::min(kTile, t.queries - first), keys, window};
      if (!sight.none()) attend<Operands>(t, tiles, first, sight);
    }
  }
  finish(t, tiles);
}

void run(const ForwardTask& t, float* memory) {
  const bool all_bf16 = t.q.dtype == Dtype::bf16 && t.k.dtype == Dtype::bf16 && t.v.dtype == Dtype::bf16;
  with_operands(all_bf16, [&](auto operands) { run_with<decltype(operands)>(t, memory); });
}

}  // namespace

void check_attention_shape(const char* kernel, const AttentionShape& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0 || s.head_size < 1)
    throw Error(Blame::bug,
                cat(kernel, ": ", s.heads, " heads, ", s.kv_heads, " kv heads of size ", s.head_size));
  if (!(s.scale > 0.f) || !(s.dropout >= 0.f && s.dropout < 1.f))
    throw Error(Blame::bug, cat(kernel, ": scale ", s.scale, ", dropout ", s.dropout));
}

void check_attention_view(const char* kernel, const char* what, const View& x, std::int64_t rows,
                          std::int64_t cols) {
  if (!x || x.rows != rows || x.cols != cols || x.dtype == Dtype::i32)
    throw Error(Blame::bug, cat(kernel, ": ", what, " is ", x.rows, " x ", x.cols, " of ", name(x.dtype),
                                ", needed ", rows, " x ", cols));
}

void check_bounds(const char* kernel, std::span<const std::int32_t> bounds, std::int64_t tokens) {
  bool good = !bounds.empty() && bounds.front() == 0 && bounds.back() == tokens;
  for (std::size_t b = 1; good && b < bounds.size(); ++b) good = bounds[b - 1] <= bounds[b];
  if (!good) throw Error(Blame::bug, cat(kernel, ": bounds must rise from 0 to ", tokens));
}

std::shared_ptr<CpuKernels::AttentionScratch> CpuKernels::make_attention_scratch() {
  return std::make_shared<AttentionScratch>();
}

void CpuKernels::attention(const Attention& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t N = a.q_NHd.rows, d = s.head_size;
  check_attention_shape("attention", s);
  check_attention_view("attention", "q", a.q_NHd, N, s.heads * d);
  check_attention_view("attention", "k", a.k_NKd, N, s.kv_heads * d);
  check_attention_view("attention", "v", a.v_NKd, N, s.kv_heads * d);
  check_attention_view("attention", "o", a.o_NHd, N, s.heads * d);
  check_attention_view("attention", "lse", a.lse_HN, s.heads, N);
  check_bounds("attention", a.bounds, N);

  auto& pieces = attention_->cut(a.bounds, kQueries);
  attention_->reserve(ForwardTiles::size(padded(s.head_size)));
  float* const lse = a.lse_HN.as<float>();
  const std::int64_t tasks = std::int64_t(pieces.size()) * s.heads;
  // The last pieces of a document see the most keys; the longest tasks go first.
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = tasks - 1; i >= 0; --i) {
    const int head = int(i % s.heads), kv = head / (s.heads / s.kv_heads);
    const AttentionScratch::Piece& piece = pieces[std::size_t(i / s.heads)];
    run({s, head_of(a.q_NHd, head, int(d)), head_of(a.k_NKd, kv, int(d)), head_of(a.v_NKd, kv, int(d)),
         head_of(a.o_NHd, head, int(d)), lse + head * a.lse_HN.stride, piece.document, piece.first,
         int(std::min<std::int64_t>(kQueries, piece.document.end - piece.first)), head, 0},
        attention_->mine());
  }
}

void CpuKernels::attention_decode(const AttentionDecode& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t L = a.length, d = s.head_size;
  check_attention_shape("attention_decode", s);
  if (L < 1 || a.k_LKd.rows < L || a.v_LKd.rows < L)
    throw Error(Blame::bug, cat("attention_decode: length ", L, ", cache of ", a.k_LKd.rows, " rows"));
  check_attention_view("attention_decode", "q", a.q_1Hd, 1, s.heads * d);
  check_attention_view("attention_decode", "k", a.k_LKd, a.k_LKd.rows, s.kv_heads * d);
  check_attention_view("attention_decode", "v", a.v_LKd, a.v_LKd.rows, s.kv_heads * d);
  check_attention_view("attention_decode", "o", a.o_1Hd, 1, s.heads * d);

  AttentionShape exact = s;
  exact.dropout = 0.f;
  attention_->reserve(ForwardTiles::size(padded(s.head_size)));
#pragma omp parallel for schedule(static)
  for (int head = 0; head < s.heads; ++head) {
    const int kv = head / (s.heads / s.kv_heads);
    run({exact,
         head_of(a.q_1Hd, head, int(d)),
         head_of(a.k_LKd, kv, int(d)),
         head_of(a.v_LKd, kv, int(d)),
         head_of(a.o_1Hd, head, int(d)),
         nullptr,
         {0, L},
         L - 1,
         1,
         head,
         L - 1},
        attention_->mine());
  }
}

}  // namespace zt::kernels
