// Gradient rows are sorted by id first (stable, so the tokens of an id stay in order); then each id's rows are
// added by the threads that own its columns. Source: Satish, Harris & Garland 2009, "Designing efficient sorting
// algorithms for manycore GPUs" (radix sort by digits: count, scan, scatter).
#include <algorithm>
#include <bit>

#include "kernels/cuda_kernels.h"
#include "kernels/elementwise.cuh"
#include "kernels/embedding.h"

namespace zt::kernels {
namespace {

template <typename T>
struct EmbeddingOp {
  const std::int32_t *tokens, *positions;
  DeviceRows<const T> wte, wpe;  // wpe may be absent
  DeviceRows<T> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float token[kVec], position[kVec];
    load(wte.at(tokens[row], col), count, token);
    if (wpe.data != nullptr) {
      load(wpe.at(positions[row], col), count, position);
#pragma unroll
      for (int i = 0; i < kVec; ++i) token[i] += position[i];
    }
    store(y.at(row, col), count, token);
  }
};

constexpr int kDigitBits = 6, kDigits = 1 << kDigitBits;
constexpr int kSortThreads = 256;  // tokens of a tile, one a thread
constexpr int kScanThreads = 1024;

struct Pair {
  std::int32_t id, token;
};

// The pairs to be sorted by one digit of their ids: given ones, or token n with ids[n].
struct Unsorted {
  const Pair* pairs;  // absent: the first pass
  const std::int32_t* ids;
  std::int32_t count;
  int shift;

  __device__ Pair at(std::int32_t i) const { return pairs == nullptr ? Pair{ids[i], i} : pairs[i]; }
  __device__ int digit(const Pair& p) const { return p.id >> shift & (kDigits - 1); }
};

// counts[digit][tile]: how many pairs of the tile have the digit.
__global__ void __launch_bounds__(kSortThreads) count_digits(const Unsorted in, std::int32_t* counts) {
  __shared__ std::int32_t tile[kDigits];
  const int me = int(threadIdx.x);
  if (me < kDigits) tile[me] = 0;
  __syncthreads();
  const std::int32_t i = std::int32_t(blockIdx.x) * kSortThreads + me;
  if (i < in.count) atomicAdd(&tile[in.digit(in.at(i))], 1);
  __syncthreads();
  if (me < kDigits) counts[me * std::int32_t(gridDim.x) + std::int32_t(blockIdx.x)] = tile[me];
}

// counts becomes the sums of all counts before each. One block, of which each thread owns a run of counts.
__global__ void __launch_bounds__(kScanThreads) scan_counts(std::int32_t* counts, const std::int32_t count) {
  __shared__ std::int32_t sums[2][kScanThreads];
  const int me = int(threadIdx.x);
  const std::int32_t each = (count + kScanThreads - 1) / kScanThreads;
  const std::int32_t first = me * each, end = min(count, first + each);
  std::int32_t sum = 0;
  for (std::int32_t i = first; i < end; ++i) sum += counts[i];
  int now = 0;
  sums[now][me] = sum;
  __syncthreads();
  for (int step = 1; step < kScanThreads; step *= 2) {
    sums[1 - now][me] = sums[now][me] + (me >= step ? sums[now][me - step] : 0);
    now = 1 - now;
    __syncthreads();
  }
  std::int32_t before = sums[now][me] - sum;
  for (std::int32_t i = first; i < end; ++i) {
    const std::int32_t here = counts[i];
    counts[i] = before;
    before += here;
  }
}

// Each pair goes behind those of smaller digits, of earlier tiles, and of its tile's earlier threads.
__global__ void __launch_bounds__(kSortThreads)
    scatter_pairs(const Unsorted in, const std::int32_t* starts, Pair* out) {
  __shared__ std::int32_t digits[kSortThreads];
  const int me = int(threadIdx.x);
  const std::int32_t i = std::int32_t(blockIdx.x) * kSortThreads + me;
  const bool mine = i < in.count;
  const Pair pair = mine ? in.at(i) : Pair{0, 0};
  const int digit = mine ? in.digit(pair) : -1;
  digits[me] = digit;
  __syncthreads();
  if (!mine) return;
  std::int32_t earlier = 0;
  for (int j = 0; j < me; ++j) earlier += digits[j] == digit;
  out[starts[digit * std::int32_t(gridDim.x) + std::int32_t(blockIdx.x)] + earlier] = pair;
}

constexpr int kAtOnce = 8;  // rows of a run that are on their way together

// dw_id += the rows of dy of each run of pairs with one id, in order. A block takes one pair and works if it begins a run.
template <int kVec, typename T>
__global__ void __launch_bounds__(kElementwiseThreads)
    add_runs(const Pair* pairs, const std::int32_t count, const DeviceRows<const T> dy,
             const DeviceRows<float> dw, const std::int64_t cols) {
  const std::int32_t begin = std::int32_t(blockIdx.x), id = pairs[begin].id;
  if (begin > 0 && pairs[begin - 1].id == id) return;
  const std::int64_t col = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kVec;
  if (col >= cols) return;
  const int here = int(min(std::int64_t{kVec}, cols - col));
  float sum[kVec];
  load(static_cast<const float*>(dw.at(id, col)), here, sum);
  bool more = true;
  for (std::int32_t i = begin; more; i += kAtOnce) {
    float rows[kAtOnce][kVec] = {};
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const Pair pair = i + r < count ? pairs[i + r] : Pair{-1, 0};
      more = pair.id == id;
      if (more) load(dy.at(pair.token, col), here, rows[r]);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r)
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum[j] += rows[r][j];  // 0 beyond the run
  }
  store(dw.at(id, col), here, sum);
}

struct Lists {
  Pair *pairs, *spare;
  std::int32_t *counts, tiles;
};

Lists lists(const CudaScratch& scratch, std::int64_t N) {
  const std::int64_t tiles = (N + kSortThreads - 1) / kSortThreads;
  std::int32_t* const words = scratch.first<std::int32_t>(4 * N + tiles * kDigits, "embedding_backward");
  Pair* const pairs = reinterpret_cast<Pair*>(words);
  return {pairs, pairs + N, words + 4 * N, std::int32_t(tiles)};
}

// (id, token) of all tokens, by id and then by token. Ids are below `limit`.
const Pair* sorted(const View& ids_N, std::int64_t limit, Lists at) {
  const auto N = std::int32_t(ids_N.size());
  const cudaStream_t stream = cuda::current_stream();
  const int bits = std::max(1, int(std::bit_width(std::uint64_t(limit - 1))));
  Unsorted in{nullptr, ids_N.as<const std::int32_t>(), N, 0};
  for (; in.shift < bits; in.shift += kDigitBits) {
    count_digits<<<unsigned(at.tiles), kSortThreads, 0, stream>>>(in, at.counts);
    scan_counts<<<1, kScanThreads, 0, stream>>>(at.counts, at.tiles * kDigits);
    scatter_pairs<<<unsigned(at.tiles), kSortThreads, 0, stream>>>(in, at.counts, at.pairs);
    in.pairs = at.pairs;
    std::swap(at.pairs, at.spare);
  }
  cuda::check(cudaGetLastError(), "embedding_backward");
  return in.pairs;
}

template <int kVec, typename T>
void launch_runs(const Pair* pairs, std::int64_t N, const View& dy, const View& dw) {
  const std::int64_t chunks = (dy.cols + kVec - 1) / kVec;
  const auto threads = unsigned(std::min<std::int64_t>((chunks + 31) / 32 * 32, kElementwiseThreads));
  const dim3 blocks(unsigned(N), unsigned((chunks + threads - 1) / threads));
  add_runs<kVec><<<blocks, threads, 0, cuda::current_stream()>>>(
      pairs, std::int32_t(N), DeviceRows<const T>(dy), DeviceRows<float>(dw), dy.cols);
  cuda::check(cudaGetLastError(), "embedding_backward");
}

void add_rows(const View& ids_N, const View& dy, const View& dw, const CudaScratch& scratch) {
  const std::int64_t N = ids_N.size();
  if (N == 0 || dy.cols == 0) return;
  const Pair* const pairs = sorted(ids_N, dw.rows, lists(scratch, N));
  with_device_type(dy.dtype, "embedding_backward", [&](auto type) {
    using T = decltype(type);
    constexpr int kVec = kWidest<T, float>;
    if (all_aligned({dy, dw}, kVec))
      launch_runs<kVec, T>(pairs, N, dy, dw);
    else
      launch_runs<1, T>(pairs, N, dy, dw);
  });
}

bool are_ids(const View& view, std::int64_t n) { return view.dtype == Dtype::i32 && is_vector(view, n); }

}  // namespace

void CudaKernels::embedding(const Embedding& a) {
  const std::int64_t N = a.y_ND.rows, D = a.y_ND.cols;
  require(are_ids(a.tokens_N, N), "embedding", "needs one i32 token for each row of y");
  require(!a.wpe_PD || are_ids(a.positions_N, N), "embedding", "needs one i32 position for each row of y");
  require(a.wte_VD.cols == D && (!a.wpe_PD || a.wpe_PD.cols == D), "embedding",
          "widths of wte, wpe and y differ");
  require(a.wte_VD.dtype == a.y_ND.dtype && (!a.wpe_PD || a.wpe_PD.dtype == a.y_ND.dtype), "embedding",
          "wte, wpe and y must be of one format");
  with_device_type(a.y_ND.dtype, "embedding", [&](auto type) {
    using T = decltype(type);
    using In = DeviceRows<const T>;
    constexpr int kVec = kWidest<T>;
    const EmbeddingOp<T> op{a.tokens_N.as<const std::int32_t>(),
                            a.wpe_PD ? a.positions_N.as<const std::int32_t>() : nullptr, In(a.wte_VD),
                            In(a.wpe_PD), DeviceRows<T>(a.y_ND)};
    launch_rows<kVec>("embedding", op, N, D, all_aligned({a.wte_VD, a.wpe_PD, a.y_ND}, kVec));
  });
}

void CudaKernels::embedding_backward(const EmbeddingGrad& a) {
  const std::int64_t N = a.dy_ND.rows, D = a.dy_ND.cols;
  require(!a.dwte_VD || are_ids(a.tokens_N, N), "embedding_backward",
          "needs one i32 token for each row of dy");
  require(!a.dwpe_PD || are_ids(a.positions_N, N), "embedding_backward",
          "needs one i32 position for each row of dy");
  for (const View& dw : {a.dwte_VD, a.dwpe_PD})
    require(!dw || (dw.cols == D && dw.dtype == Dtype::f32), "embedding_backward",
            "dwte and dwpe must be f32 and as wide as dy");
  require(N < (std::int64_t{1} << 29), "embedding_backward", "too many tokens");
  if (a.dwte_VD) add_rows(a.tokens_N, a.dy_ND, a.dwte_VD, scratch());
  if (a.dwpe_PD) add_rows(a.positions_N, a.dy_ND, a.dwpe_PD, scratch());
}

}  // namespace zt::kernels
