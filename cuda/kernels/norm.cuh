// How the threads of the norms' kernels share a group of D features.
//
// A team works on one group: a warp, several of which are in a block, or a whole block. A thread holds kChunks
// chunks of kVec features in registers; chunk c of thread `rank` of a team of `size` starts at feature
// (c size + rank) kVec, so that neighbours read neighbouring 16 bytes. Chunks are whole: kVec divides D.
#pragma once

#include "kernels/norm.h"
#include "kernels/reduce.cuh"

namespace zt::kernels {

constexpr int kNormThreads = 1024;  // of a block, at most
constexpr int kNormWidth = 16384, kUnalignedWidth = 8192;

// kMost: threads of a block at most, and always where teams are warps. What a thread holds must fit into its registers
// then, of which a processor has 65536: at most 32 features of up to 512 threads, 8 of 1024.
template <int kVec_, int kChunks_, int kMost_, bool kIsWarp_>
struct Team {
  static constexpr int kVec = kVec_, kChunks = kChunks_, kMost = kMost_;
  static constexpr bool kIsWarp = kIsWarp_;

  __device__ static int size() { return kIsWarp ? kWarp : int(blockDim.x); }
  __device__ static int rank() { return kIsWarp ? int(threadIdx.x) % kWarp : int(threadIdx.x); }
  __device__ static int number() { return kIsWarp ? int(threadIdx.x) / kWarp : 0; }  // in the block
  __device__ static int count() { return kIsWarp ? int(blockDim.x) / kWarp : 1; }    // in the block
  __device__ static int column(int chunk) { return (chunk * size() + rank()) * kVec; }
  __device__ static float sum(float x, float* spare) {
    if constexpr (kIsWarp)
      return warp_sum(x);
    else
      return block_sum(x, spare);
  }
};

// Threads of a block of teams for groups of `chunks` chunks.
template <typename T>
int team_threads(int chunks) {
  if (T::kIsWarp) return T::kMost;
  const int each = (chunks + T::kChunks - 1) / T::kChunks;
  return (each + kWarp - 1) / kWarp * kWarp;
}

// Calls f(Team, threads of a block) for the smallest team that holds groups of D numbers of type T.
template <typename T, typename F>
void with_team(const char* kernel, int D, bool aligned, F f) {
  constexpr int kVec = kWidest<T>, kLeast = 8 / kVec;  // a thread holds 8 numbers, 16 or 32
  const bool whole = aligned && D % kVec == 0;
  if (D > (whole ? kNormWidth : kUnalignedWidth))
    fail_contract(kernel, cat("norms take at most ", kNormWidth, " features, ", kUnalignedWidth,
                              " where rows don't start on 16-byte boundaries, not ", D));
  const auto call = [&](auto team, int chunks) { f(team, team_threads<decltype(team)>(chunks)); };
  if (!whole) {
    if (D <= 2 * kWarp) return call(Team<1, 2, 256, true>(), D);
    if (D <= 4 * 512) return call(Team<1, 4, 512, false>(), D);
    return call(Team<1, 8, 1024, false>(), D);
  }
  const int chunks = D / kVec;
  if (chunks <= kWarp) return call(Team<kVec, 1, 256, true>(), chunks);
  if (chunks <= 256 * kLeast) return call(Team<kVec, kLeast, 256, false>(), chunks);
  if (chunks <= 256 * 2 * kLeast) return call(Team<kVec, 2 * kLeast, 256, false>(), chunks);
  return call(Team<kVec, 4 * kLeast, 512, false>(), chunks);
}

// What the four kernels have in common: y's shape is x's, g is a vector, saved numbers are one a group.
inline void require_norm_shapes(const char* kernel, const View& x, const View& g, const View& y,
                                const View& r) {
  require(g && g.rows == 1 && g.cols > 0, kernel, "g must be one row");
  if (r.rows != x.rows || r.cols * g.cols != x.cols)
    fail_contract(kernel, cat("x has ", x.rows, " rows of ", x.cols, " = groups x ", g.cols,
                              " features, but the saved numbers are ", r.rows, " x ", r.cols));
  require(has_shape(y, x.rows, x.cols), kernel, "shapes of x and y (or dx, dy) differ");
  require(g.dtype == x.dtype && y.dtype == x.dtype && r.dtype == Dtype::f32, kernel,
          "x, g and y must be of one format, saved numbers f32");
  require(r.size() < (std::int64_t{1} << 31), kernel, "too many groups");
}

}  // namespace zt::kernels
