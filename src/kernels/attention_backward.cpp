// Backward of attention, from the saved log-sum-exp (Dao 2023, section 3.1):
//
//   p_ij = e^(scale q_i . k_j - lse_i)     delta_i = do_i . o_i     ds_ij = p_ij (f_ij do_i . v_j - delta_i)
//   dv_j = sum_i f_ij p_ij do_i    dk_j = scale sum_i ds_ij q_i    dq_i = scale sum_j ds_ij k_j
//
// f is dropout's factor (1 without). Every sum runs in one fixed order: dq over tiles of keys, dk and dv over
// the query heads of the group and then over tiles of queries. There are two ways to run, equal to the bit:
// one task a (document, kv head) makes every tile's p once; where those are too few for the threads, one task
// a tile makes them twice.
#include <cmath>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/attention_operands.h"
#include "kernels/attention_scratch.h"
#include "kernels/attention_tiles.h"

namespace zt::kernels {
namespace {

struct BackwardTiles {
  float *q, *grad, *q_pairs, *grad_pairs, *k_pairs, *k_T, *v_T, *p, *ds, *spare, *dq, *dk, *dv;

  static std::size_t size(int D) { return std::size_t(10 * kTile * D + 5 * kTile * kTile / 2); }
  BackwardTiles(float* m, int D)
      : q(m),
        grad(q + kTile * D),
        q_pairs(grad + kTile * D),
        grad_pairs(q_pairs + kTile * D),
        k_pairs(grad_pairs + kTile * D),
        k_T(k_pairs + kTile * D),
        v_T(k_T + kTile * D),
        p(v_T + kTile * D),
        ds(p + kTile * kTile),
        spare(ds + kTile * kTile),
        dq(spare + kTile * kTile / 2),
        dk(dq + kTile * D),
        dv(dk + kTile * D) {}
};

int tile_rows(std::int64_t first, std::int64_t end) {
  return int(std::min<std::int64_t>(kTile, end - first));
}

// Scratch beyond the tiles that a whole document needs: dq, dk, dv.
std::size_t whole_size(std::int64_t tokens, int D) {
  return std::size_t(3 * ((tokens + kTile - 1) / kTile * kTile) * D);
}

template <typename Operands>
class Backward {
 public:
  Backward(const AttentionGrad& a, float* memory)
      : a_(a),
        d_(a.shape.head_size),
        D_(padded(d_)),
        group_(a.shape.heads / a.shape.kv_heads),
        window_(a.shape.window),
        lse_(static_cast<const float*>(a.lse_HN.data)),
        delta_(static_cast<const float*>(a.delta_HN.data)),
        t_(memory, D_),
        rest_(memory + BackwardTiles::size(D_)) {}

  void whole(const Document& doc, int kv) {
    const std::int64_t rows = (doc.size() + kTile - 1) / kTile * kTile;
    float *dk = rest_, *dv = dk + rows * D_, *dq = dv + rows * D_;
    std::fill_n(dk, 2 * rows * D_, 0.f);
    for (int head = kv * group_; head < (kv + 1) * group_; ++head) {
      std::fill_n(dq, rows * D_, 0.f);
      for (std::int64_t key = doc.begin; key < doc.end; key += kTile) {
        load_keys(doc, kv, key);
        const std::int64_t at = (key - doc.begin) * D_;
        for (std::int64_t query = key; query < doc.end; query += kTile) {
          const Sight sight = see(doc, query, key);
          if (sight.none()) break;
          make_tile(head, sight);
          add_keys(sight, dk + at, dv + at);
          add_queries(sight, dq + (query - doc.begin) * D_);
        }
      }
      put(dq, a_.shape.scale, head_of(a_.dq_NHd, head, d_), doc.begin, int(doc.size()));
    }
    put(dk, a_.shape.scale, head_of(a_.dk_NKd, kv, d_), doc.begin, int(doc.size()));
    put(dv, 1.f, head_of(a_.dv_NKd, kv, d_), doc.begin, int(doc.size()));
  }

  void keys(const Document& doc, int kv, std::int64_t key) {
    std::fill_n(t_.dk, 2 * kTile * D_, 0.f);
    load_keys(doc, kv, key);
    for (int head = kv * group_; head < (kv + 1) * group_; ++head) {
      for (std::int64_t query = key; query < doc.end; query += kTile) {
        const Sight sight = see(doc, query, key);
        if (sight.none()) break;
        make_tile(head, sight);
        add_keys(sight, t_.dk, t_.dv);
      }
    }
    put(t_.dk, a_.shape.scale, head_of(a_.dk_NKd, kv, d_), key, tile_rows(key, doc.end));
    put(t_.dv, 1.f, head_of(a_.dv_NKd, kv, d_), key, tile_rows(key, doc.end));
  }

  void queries(const Document& doc, int head, std::int64_t query) {
    std::fill_n(t_.dq, kTile * D_, 0.f);
    for (std::int64_t key = doc.begin; key <= query; key += kTile) {
      const Sight sight = see(doc, query, key);
      if (sight.none()) continue;
      load_keys(doc, head / group_, key);
      make_tile(head, sight);
      add_queries(sight, t_.dq);
    }
    put(t_.dq, a_.shape.scale, head_of(a_.dq_NHd, head, d_), query, tile_rows(query, doc.end));
  }

 private:
  Sight see(const Document& doc, std::int64_t query, std::int64_t key) const {
    return {query, key, tile_rows(query, doc.end), tile_rows(key, doc.end), window_};
  }

  void load_keys(const Document& doc, int kv, std::int64_t key) {
    const View k = head_of(a_.k_NKd, kv, d_), v = head_of(a_.v_NKd, kv, d_);
    const int rows = tile_rows(key, doc.end);
    Operands::pack_row_pairs(k, key, rows, D_, t_.k_pairs);
    Operands::pack_columns(k, key, rows, t_.k_T);
    Operands::pack_columns(v, key, rows, t_.v_T);
  }

  // Wide operands have rows and pairs of rows laid out alike; one copy does.
  void load_queries(const View& x, const Sight& sight, float* rows, float* pairs) {
    Operands::pack_rows(x, sight.query, sight.queries, D_, rows);
    if (Operands::kPack > 1) Operands::pack_row_pairs(x, sight.query, sight.queries, D_, pairs);
  }

  // p (with dropout's factors) and ds of one tile.
  void make_tile(int head, const Sight& sight) {
    load_queries(head_of(a_.q_NHd, head, d_), sight, t_.q, t_.q_pairs);
    load_queries(head_of(a_.do_NHd, head, d_), sight, t_.grad, t_.grad_pairs);
    const int row = D_ / Operands::kPack, words = Operands::words(d_);
    multiply<Operands>(sight.queries, kTile, words, {t_.q, row, 1}, t_.k_T, kTile, t_.p, kTile, false);
    multiply<Operands>(sight.queries, kTile, words, {t_.grad, row, 1}, t_.v_T, kTile, t_.ds, kTile, false);
    if (a_.shape.dropout > 0.f) return soften_dropped(head, sight);
    sight.all() ? soften<false>(head, sight) : soften<true>(head, sight);
  }

  template <bool kMasked>
  void soften(int head, const Sight& sight) {
    for (int r = 0; r < sight.queries; ++r) {
      const float lse = lse_[head * a_.lse_HN.stride + sight.query + r];
      const float delta = delta_[head * a_.delta_HN.stride + sight.query + r];
      const int low = sight.low(r), high = sight.high(r);
      float *p_row = t_.p + r * kTile, *ds_row = t_.ds + r * kTile;
      for (int v = 0; v < kTile; v += kLanes) {
        Floats p = exp_of(load(p_row + v) * a_.shape.scale - lse), ds = p * (load(ds_row + v) - delta);
        if (kMasked) {
          const Ints seen = lanes_within(v, low, high);
          p = seen != 0 ? p : Floats{};
          ds = seen != 0 ? ds : Floats{};
        }
        store(p_row + v, p);
        store(ds_row + v, ds);
      }
    }
  }

  void soften_dropped(int head, const Sight& sight) {
    alignas(64) float factors[kTile];
    for (int r = 0; r < sight.queries; ++r) {
      dropout_factors(a_.shape, sight.query + r, head, sight.query + r, sight.key, sight.keys, factors);
      for (int j = 0; j < kTile; ++j) t_.ds[r * kTile + j] *= factors[j];
    }
    soften<true>(head, sight);
    for (int r = 0; r < sight.queries; ++r) {
      dropout_factors(a_.shape, sight.query + r, head, sight.query + r, sight.key, sight.keys, factors);
      for (int j = 0; j < kTile; ++j) t_.p[r * kTile + j] *= factors[j];
    }
  }

  void add_keys(const Sight& sight, float* dk, float* dv) {
    const int words = Operands::words(sight.queries);
    const bool apart = Operands::kPack > 1;
    multiply<Operands>(sight.keys, D_, words, Operands::by_columns(t_.p, sight.queries, t_.spare),
                       apart ? t_.grad_pairs : t_.grad, D_, dv, D_, true);
    multiply<Operands>(sight.keys, D_, words, Operands::by_columns(t_.ds, sight.queries, t_.spare),
                       apart ? t_.q_pairs : t_.q, D_, dk, D_, true);
  }
  void add_queries(const Sight& sight, float* dq) {
    multiply<Operands>(sight.queries, D_, Operands::words(sight.keys),
                       Operands::by_rows(t_.ds, sight.queries, t_.spare), t_.k_pairs, D_, dq, D_, true);
  }
  void put(const float* from, float factor, const View& to, std::int64_t first, int rows) const {
    for (int r = 0; r < rows; ++r) unpack_row(from + std::int64_t{r} * D_, factor, to, first + r);
  }

  const AttentionGrad& a_;
  int d_, D_, group_, window_;
  const float *lse_, *delta_;
  BackwardTiles t_;
  float* rest_;
};

template <typename T>
void row_dots(const AttentionGrad& a) {
  const std::int64_t N = a.q_NHd.rows, d = a.shape.head_size;
  const T *const o = a.o_NHd.as<const T>(), *const grad = a.do_NHd.as<const T>();
  float* const delta = a.delta_HN.as<float>();
#pragma omp parallel for schedule(static)
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t h = 0; h < a.shape.heads; ++h) {
      Floats sum{};
      for (std::int64_t c = h * d; c < (h + 1) * d; c += kLanes) {
        const int count = int(std::min<std::int64_t>(kLanes, (h + 1) * d - c));
        sum +=
            load_some(o + n * a.o_NHd.stride + c, count) * load_some(grad + n * a.do_NHd.stride + c, count);
      }
      delta[h * a.delta_HN.stride + n] = sum_of(sum);
    }
  }
}

void check(const AttentionGrad& a) {
  const char* const kernel = "attention_backward";
  const AttentionShape& s = a.shape;
  const std::int64_t N = a.q_NHd.rows, d = s.head_size, q = s.heads * d, kv = s.kv_heads * d;
  check_attention_shape(kernel, s);
  check_attention_view(kernel, "q", a.q_NHd, N, q);
  check_attention_view(kernel, "k", a.k_NKd, N, kv);
  check_attention_view(kernel, "v", a.v_NKd, N, kv);
  check_attention_view(kernel, "o", a.o_NHd, N, q);
  check_attention_view(kernel, "do", a.do_NHd, N, q);
  check_attention_view(kernel, "dq", a.dq_NHd, N, q);
  check_attention_view(kernel, "dk", a.dk_NKd, N, kv);
  check_attention_view(kernel, "dv", a.dv_NKd, N, kv);
  check_attention_view(kernel, "lse", a.lse_HN, s.heads, N);
  check_attention_view(kernel, "delta", a.delta_HN, s.heads, N);
  check_bounds(kernel, a.bounds, N);
  (void)a.lse_HN.as<const float>();
  if (a.o_NHd.dtype != a.do_NHd.dtype)
    throw Error(Blame::bug, "attention_backward: o and do differ in dtype");
}

// Whether one task a (document, kv head) keeps the threads busy. List scheduling takes at most total /
// threads + longest; tasks of single tiles take 7 products where whole ones take 5. Small scratch matters
// too: a whole document's accumulators lie beside the tiles of each thread.
bool whole_documents(const AttentionGrad& a) {
  const double threads = max_threads();
  double total = 0, longest = 0;
  for (std::size_t b = 1; b < a.bounds.size(); ++b) {
    const double tokens = a.bounds[b] - a.bounds[b - 1];
    total += a.shape.kv_heads * tokens * tokens;
    longest = std::max(longest, tokens * tokens);
  }
  return total / threads + longest * (1 - 1 / threads) <= 1.4 * total / threads;
}

std::int64_t longest_document(std::span<const std::int32_t> bounds) {
  std::int64_t most = 0;
  for (std::size_t b = 1; b < bounds.size(); ++b)
    most = std::max<std::int64_t>(most, bounds[b] - bounds[b - 1]);
  return most;
}

template <typename Operands, typename Scratch>
void backward_by_documents(const AttentionGrad& a, const std::vector<typename Scratch::Piece>& documents,
                           Scratch& scratch) {
  const std::int64_t kv_heads = a.shape.kv_heads;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < std::int64_t(documents.size()) * kv_heads; ++i)
    Backward<Operands>(a, scratch.mine())
        .whole(documents[std::size_t(i / kv_heads)].document, int(i % kv_heads));
}

template <typename Operands, typename Scratch>
void backward_by_tiles(const AttentionGrad& a, const std::vector<typename Scratch::Piece>& pieces,
                       Scratch& scratch) {
  const std::int64_t kv_heads = a.shape.kv_heads, heads = a.shape.heads, count = std::int64_t(pieces.size());
#pragma omp parallel
  {
    Backward<Operands> mine(a, scratch.mine());
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t i = 0; i < count * kv_heads; ++i)
      mine.keys(pieces[std::size_t(i / kv_heads)].document, int(i % kv_heads),
                pieces[std::size_t(i / kv_heads)].first);
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = count * heads - 1; i >= 0; --i)
      mine.queries(pieces[std::size_t(i / heads)].document, int(i % heads),
                   pieces[std::size_t(i / heads)].first);
  }
}

}  // namespace

void CpuKernels::attention_backward(const AttentionGrad& a) {
  check(a);
  with_type(a.o_NHd.dtype, "attention_backward", [&](auto type) { row_dots<decltype(type)>(a); });
  const bool all_bf16 = a.q_NHd.dtype == Dtype::bf16 && a.k_NKd.dtype == Dtype::bf16 &&
                        a.v_NKd.dtype == Dtype::bf16 && a.do_NHd.dtype == Dtype::bf16;
  const bool whole = whole_documents(a);
  const int D = padded(a.shape.head_size);
  const std::int64_t longest = longest_document(a.bounds);
  attention_->reserve(BackwardTiles::size(D) + (whole ? whole_size(longest, D) : 0));
  const auto& pieces = attention_->cut(a.bounds, whole ? std::max<std::int64_t>(1, longest) : kTile);
  with_operands(all_bf16, [&](auto operands) {
    using Operands = decltype(operands);
    whole ? backward_by_documents<Operands>(a, pieces, *attention_)
          : backward_by_tiles<Operands>(a, pieces, *attention_);
  });
}

}  // namespace zt::kernels
