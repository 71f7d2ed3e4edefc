// Which keys a query sees, and which of them dropout keeps.
#pragma once

#include "kernels/attention_call.cuh"

namespace zt::kernels {

// Query i sees keys [first_key(i), i]. Neither end of that range ever falls from one query to the next.
__device__ __forceinline__ int first_key(const AttentionCall& a, int query) {
  const int begin = a.begin_N[query];
  return a.window > 0 ? max(begin, query - a.window + 1) : begin;
}

// Key j is seen by queries [j, last_query(j)].
__device__ __forceinline__ int last_query(const AttentionCall& a, int key) {
  const int last = a.end_N[key] - 1;
  return a.window > 0 ? min(last, key + a.window - 1) : last;
}

// The steps of a walk over the query tiles that see a tile of keys, once for each head of its group.
struct QueryWalk {
  int first, tiles, steps, group;

  __device__ __forceinline__ QueryWalk(const AttentionCall& a, int key, int keys, int tile)
      : first(key / tile * tile),
        tiles((last_query(a, min(key + keys, a.tokens) - 1) - first) / tile + 1),
        steps(tiles * (a.heads / a.kv_heads)),
        group(a.heads / a.kv_heads) {}
  __device__ __forceinline__ int head(int step, int kv) const { return kv * group + step / tiles; }
};

// Decides for keys in any order, one query and head; neighbours of the key asked before cost nothing.
class Dropper {
 public:
  __device__ __forceinline__ Dropper(const AttentionCall& a, int head, int query)
      : a_(a.dropout), query_(query) {
    const std::int64_t number =
        a_.first_row + (a_.row_N != nullptr && query < a.tokens ? a_.row_N[query] : query);
    base_ = (std::uint64_t(number) * std::uint64_t(a.heads) + std::uint64_t(head)) << 24;
  }
  // Whether the probability of a key is kept. Keys after the query are; they are masked anyway.
  __device__ __forceinline__ bool keeps(int key) {
    const int distance = query_ - key;
    if (distance < 0) return true;
    if (distance / 4 != quad_) {
      quad_ = distance / 4;
      words_ = a_.random.words(base_ + std::uint64_t(quad_));
    }
    const int i = distance % 4;
    const std::uint32_t low = i % 2 == 0 ? words_.x : words_.y, high = i % 2 == 0 ? words_.z : words_.w;
    return !(device_uniform(i < 2 ? low : high) < a_.rate);
  }

 private:
  const AttentionDropout& a_;
  int query_, quad_ = -1;
  std::uint64_t base_;
  uint4 words_;
};

}  // namespace zt::kernels
