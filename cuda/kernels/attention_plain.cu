// Formulas: kernels/attention.h and attention_backward.cuh.
//
// A block owns 16 rows of one head, eight threads a row, and walks over 32 other rows at a time, held in shared memory
// as f32. Each thread makes the scores of its row with every eighth other row, and sums every eighth column.
#include <cmath>

#include "kernels/attention_plain.cuh"
#include "kernels/attention_rows.cuh"
#include "kernels/attention_sight.cuh"

namespace zt::kernels {
namespace {

constexpr int kOwn = 16, kSharers = 8, kOther = 32, kPlainThreads = kOwn * kSharers;
constexpr int kScores = kOther / kSharers;  // of a thread, in one step
constexpr int kScoreRow =
    kOther + kSharers;  // four rows of a warp write eight scores each to different banks

// Rows of a tile lie an odd number of words apart, so that a column's numbers are in different banks.
__device__ int tile_row(const AttentionCall& a) { return a.head_size | 1; }

// Rows [first, first + rows) of a head, widened; zeros beyond the last token.
__device__ void load_tile(const AttentionCall& a, float* tile, const HeadRows& x, int head, int first,
                          int rows) {
  for (int r = int(threadIdx.x) / 32; r < rows; r += kPlainThreads / 32)
    for (int c = int(threadIdx.x) % 32; c < a.head_size; c += 32)
      tile[r * tile_row(a) + c] = first + r < a.tokens ? read(x, head, a.head_size, first + r, c) : 0.f;
}

__device__ float dot(const float* x, const float* y, int size) {
  float sum = 0.f;
  for (int c = 0; c < size; ++c) sum += x[c] * y[c];
  return sum;
}

__device__ float largest_of_sharers(float x) {
#pragma unroll
  for (int step = 1; step < kSharers; step *= 2) x = larger(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
__device__ float sum_of_sharers(float x) {
#pragma unroll
  for (int step = 1; step < kSharers; step *= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// A thread's columns of its row: number x is column sharer + 8 x.
template <int kColumns>
struct RowSums {
  float sum[kColumns / kSharers] = {};

  // += weights[t] tile[t] over rows [low, high) of a tile.
  __device__ void add(const AttentionCall& a, const float* weights, const float* tile, int sharer, int low,
                      int high) {
    for (int t = low; t < high; ++t)
#pragma unroll
      for (int x = 0; x < kColumns / kSharers; ++x) {
        const int c = sharer + x * kSharers;
        if (c < a.head_size) sum[x] += weights[t] * tile[t * tile_row(a) + c];
      }
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (int x = 0; x < kColumns / kSharers; ++x) sum[x] *= factor;
  }
  __device__ void write(const AttentionCall& a, const HeadRows& to, int head, int row, int sharer) const {
    if (row >= a.tokens) return;
#pragma unroll
    for (int x = 0; x < kColumns / kSharers; ++x) {
      const int c = sharer + x * kSharers;
      if (c < a.head_size) kernels::write(to, head, a.head_size, row, c, sum[x]);
    }
  }
};

// What dropout multiplies the probability of one query and key with.
__device__ float dropout_factor(const AttentionCall& a, int head, int query, int key) {
  if (a.dropout.rate <= 0.f) return 1.f;
  return Dropper(a, head, query).keeps(key) ? a.dropout.kept : 0.f;
}

template <int kColumns>
__global__ void __launch_bounds__(kPlainThreads, 3) plain_attention(const __grid_constant__ AttentionCall a) {
  extern __shared__ float plain_shared[];
  const int size = tile_row(a), head = int(blockIdx.x), kv = head / (a.heads / a.kv_heads);
  float *const q = plain_shared, *const k = q + kOwn * size, *const v = k + kOther * size;
  const int first = int(blockIdx.y) * kOwn, last = min(first + kOwn, a.tokens) - 1;
  const int r = int(threadIdx.x) / kSharers, sharer = int(threadIdx.x) % kSharers, i = first + r;
  const int low = first_key(a, min(i, last));
  float* const p = v + kOther * size + r * kScoreRow;
  load_tile(a, q, a.q, head, first, kOwn);
  RowSums<kColumns> o;
  float most = -INFINITY, sum = 0.f;
  // Steps start at multiples of 32 keys from the start of each document, so its numbers don't depend on its place.
  const int start = a.begin_N[first];
  for (int key = start + (first_key(a, first) - start) / kOther * kOther, next = 0; key <= last; key = next) {
    next = min(key + kOther, a.end_N[key]);
    __syncthreads();
    load_tile(a, k, a.k, kv, key, kOther);
    load_tile(a, v, a.v, kv, key, kOther);
    __syncthreads();
    const int begin = max(low - key, 0), end = min(i + 1, next) - key;
    float s[kScores], now = most;
#pragma unroll
    for (int x = 0; x < kScores; ++x) {
      const int t = sharer + x * kSharers;
      s[x] = t >= begin && t < end ? __fmul_rn(a.scale, dot(q + r * size, k + t * size, a.head_size))
                                   : -INFINITY;
      now = larger(now, s[x]);
    }
    now = largest_of_sharers(now);
    const float shrink = now == -INFINITY ? 1.f : expf(most - now);
    most = now;
    float added = 0.f;
#pragma unroll
    for (int x = 0; x < kScores; ++x) {
      const int t = sharer + x * kSharers;
      const float e = t >= begin && t < end ? expf(s[x] - now) : 0.f;
      added += e;
      p[t] = e;
    }
    if (a.dropout.rate > 0.f) {
#pragma unroll 1
      for (int t = sharer; t < end; t += kSharers)
        if (t >= begin) p[t] *= dropout_factor(a, head, i, key + t);
    }
    sum = sum * shrink + sum_of_sharers(added);
    __syncwarp();
    o.scale(shrink);
    o.add(a, p, v, sharer, begin, end);
  }
  o.scale(1.f / sum);
  o.write(a, a.o, head, i, sharer);
  if (sharer == 0 && i <= last) a.lse.head(head)[i] = most + logf(sum);
}

__global__ void __launch_bounds__(kPlainThreads, 3)
    plain_attention_delta(const __grid_constant__ AttentionCall a) {
  const int row = int(blockIdx.x) * (kPlainThreads / 32) + int(threadIdx.x) / 32, head = int(blockIdx.y);
  float sum = 0.f;
  if (row < a.tokens)
    for (int c = int(threadIdx.x) % 32; c < a.head_size; c += 32)
      sum += read(a.o, head, a.head_size, row, c) * read(a.grad, head, a.head_size, row, c);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (row < a.tokens && threadIdx.x % 32 == 0) a.delta.head(head)[row] = sum;
}

// p with dropout's factor, and ds, of one query and key.
struct PairGradient {
  float p = 0.f, ds = 0.f;

  __device__ PairGradient(const AttentionCall& a, int head, int query, int key, const float* q,
                          const float* k, const float* grad, const float* v) {
    // Rounded as in the forward pass: the p of a document of one token is 1.
    p = expf(__fmul_rn(a.scale, dot(q, k, a.head_size)) - a.lse.head(head)[query]);
    const float factor = dropout_factor(a, head, query, key);
    ds = p * (factor * dot(grad, v, a.head_size) - a.delta.head(head)[query]);
    p *= factor;
  }
};

// dk and dv of 16 keys of one key/value head.
template <int kColumns>
__global__ void __launch_bounds__(kPlainThreads, 3)
    plain_attention_keys(const __grid_constant__ AttentionCall a) {
  extern __shared__ float plain_shared[];
  const int size = tile_row(a), kv = int(blockIdx.x), group = a.heads / a.kv_heads;
  float *const k = plain_shared, *const v = k + kOwn * size, *const q = v + kOwn * size,
               *const grad = q + kOther * size;
  const int first = int(blockIdx.y) * kOwn, last = min(first + kOwn, a.tokens) - 1;
  const int r = int(threadIdx.x) / kSharers, sharer = int(threadIdx.x) % kSharers, j = first + r;
  const int high = last_query(a, min(j, last)), high_of_last = last_query(a, last);
  float *const p = grad + kOther * size + r * kScoreRow, *const ds = p + kOwn * kScoreRow;
  load_tile(a, k, a.k, kv, first, kOwn);
  load_tile(a, v, a.v, kv, first, kOwn);
  RowSums<kColumns> dk, dv;
  for (int head = kv * group; head < (kv + 1) * group; ++head) {
    for (int query = first; query <= high_of_last; query += kOther) {
      __syncthreads();
      load_tile(a, q, a.q, head, query, kOther);
      load_tile(a, grad, a.grad, head, query, kOther);
      __syncthreads();
      const int begin = max(j - query, 0), end = j <= last ? min(high + 1 - query, kOther) : 0;
      for (int t = sharer; t < kOther; t += kSharers) {
        if (t < begin || t >= end) continue;
        const PairGradient pair(a, head, query + t, j, q + t * size, k + r * size, grad + t * size,
                                v + r * size);
        p[t] = pair.p;
        ds[t] = pair.ds;
      }
      __syncwarp();
      dv.add(a, p, grad, sharer, begin, end);
      dk.add(a, ds, q, sharer, begin, end);
    }
  }
  dk.scale(a.scale);
  dk.write(a, a.dk, kv, j, sharer);
  dv.write(a, a.dv, kv, j, sharer);
}

// dq of 16 queries of one head.
template <int kColumns>
__global__ void __launch_bounds__(kPlainThreads, 3)
    plain_attention_queries(const __grid_constant__ AttentionCall a) {
  extern __shared__ float plain_shared[];
  const int size = tile_row(a), head = int(blockIdx.x), kv = head / (a.heads / a.kv_heads);
  float *const q = plain_shared, *const grad = q + kOwn * size, *const k = grad + kOwn * size,
               *const v = k + kOther * size;
  const int first = int(blockIdx.y) * kOwn, last = min(first + kOwn, a.tokens) - 1;
  const int r = int(threadIdx.x) / kSharers, sharer = int(threadIdx.x) % kSharers, i = first + r;
  const int low = first_key(a, min(i, last));
  float* const ds = v + kOther * size + r * kScoreRow;
  load_tile(a, q, a.q, head, first, kOwn);
  load_tile(a, grad, a.grad, head, first, kOwn);
  RowSums<kColumns> dq;
  for (int key = first_key(a, first); key <= last; key += kOther) {
    __syncthreads();
    load_tile(a, k, a.k, kv, key, kOther);
    load_tile(a, v, a.v, kv, key, kOther);
    __syncthreads();
    const int begin = max(low - key, 0), end = i <= last ? min(i + 1 - key, kOther) : 0;
    for (int t = sharer; t < kOther; t += kSharers) {
      if (t < begin || t >= end) continue;
      ds[t] = PairGradient(a, head, i, key + t, q + r * size, k + t * size, grad + r * size, v + t * size).ds;
    }
    __syncwarp();
    dq.add(a, ds, k, sharer, begin, end);
  }
  dq.scale(a.scale);
  dq.write(a, a.dq, head, i, sharer);
}

dim3 grid_of(int heads, int tokens) { return {unsigned(heads), unsigned((tokens + kOwn - 1) / kOwn)}; }

// Bytes of `own` and `other` tiles and of `scores` matrices of scores.
int shared_bytes(const AttentionCall& call, int own, int other, int scores) {
  const int row = call.head_size | 1;
  return ((own * kOwn + other * kOther) * row + scores * kOwn * kScoreRow) * int(sizeof(float));
}

template <typename F>
void with_columns(int head_size, F f) {
  if (head_size <= 64) return f(std::integral_constant<int, 64>());
  if (head_size <= 128) return f(std::integral_constant<int, 128>());
  f(std::integral_constant<int, kLargestHead>());
}

}  // namespace

void launch_plain_attention(const AttentionCall& call, cudaStream_t stream) {
  with_columns(call.head_size, [&](auto columns) {
    launch_with_shared("attention", plain_attention<columns()>, grid_of(call.heads, call.tokens),
                       kPlainThreads, shared_bytes(call, 1, 2, 1), call, stream);
  });
}

void launch_plain_attention_backward(const AttentionCall& call, cudaStream_t stream) {
  const char* const name = "attention_backward";
  constexpr int kRows = kPlainThreads / 32;
  launch_with_shared(name, plain_attention_delta,
                     dim3(unsigned((call.tokens + kRows - 1) / kRows), unsigned(call.heads)), kPlainThreads,
                     0, call, stream);
  with_columns(call.head_size, [&](auto columns) {
    launch_with_shared(name, plain_attention_keys<columns()>, grid_of(call.kv_heads, call.tokens),
                       kPlainThreads, shared_bytes(call, 2, 2, 2), call, stream);
    launch_with_shared(name, plain_attention_queries<columns()>, grid_of(call.heads, call.tokens),
                       kPlainThreads, shared_bytes(call, 2, 2, 1), call, stream);
  });
}

}  // namespace zt::kernels
