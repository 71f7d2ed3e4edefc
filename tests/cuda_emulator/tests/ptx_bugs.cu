// Small kernels with one mistake each, and the same kernels without it. `kBug` picks.
#include <cuda_bf16.h>

#include <cstdint>

#include "ptx_bugs.h"

namespace {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// y = x reversed inside each block, by way of shared memory.
template <bool kBug>
__global__ void barrier_before_use(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (!kBug) __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}

template <bool kBug>
__global__ void barrier_before_reuse(float* y, const float* x) {
  __shared__ float s[64];
  for (int i = 0; i < 3; ++i) {
    s[threadIdx.x] = x[threadIdx.x] + i;
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
    if (!kBug) __syncthreads();
  }
}

template <bool kBug>
__global__ void block_reduction(float* y, const float* x) {
  __shared__ float part[2];
  float v = x[threadIdx.x];
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  if (!kBug) __syncthreads();
  if (threadIdx.x < 32) y[threadIdx.x] = part[0] + part[1];
}

template <bool kBug>
__global__ void atomic_between_blocks(float* y, const float* x) {
  if (threadIdx.x != 0) return;
  if (kBug)
    y[0] += x[blockIdx.x];
  else
    atomicAdd(y, x[blockIdx.x]);
}

template <bool kBug>
__global__ void tail_guard(float* y, const float* x) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (kBug || i < 100) y[i] = x[i % 64];
}

template <bool kBug>
__global__ void barrier_in_a_branch(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (kBug) {
    if (threadIdx.x >= 40) return;
    __syncthreads();
  } else {
    __syncthreads();
    if (threadIdx.x >= 40) return;
  }
  y[threadIdx.x] = s[39 - threadIdx.x];
}

template <bool kBug>
__global__ void two_barriers(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (kBug && threadIdx.x < 32) {
    y[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = 2;
  } else {
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
  }
}

template <bool kBug>
__global__ void shuffle_mask(float* y, const float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) v += __shfl_xor_sync(kBug ? 0xffffffffu : 0xffffu, v, 8);
  y[threadIdx.x] = v;
}

template <bool kBug>
__global__ void syncwarp_between_lanes(float* y, const float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  if (!kBug) __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}

template <bool kBug>
__global__ void read_of(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x] * 2;
}

template <bool kBug>
__global__ void copy_async_wait(float* y, const float* x) {
  __shared__ float4 s[16];
  if (threadIdx.x < 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(s + threadIdx.x)),
                 "l"(x + threadIdx.x * 4)
                 : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (!kBug) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = reinterpret_cast<const float*>(s)[63 - threadIdx.x];
  if (kBug) asm volatile("cp.async.wait_group 0;" ::: "memory");
}

template <bool kBug>
__global__ void one_word_of_two_blocks(float* y, const float* x) {
  if (threadIdx.x == 0) y[kBug ? 0 : blockIdx.x] = x[blockIdx.x];
}

template <bool kBug>
__global__ void alignment(float* y, const float* x) {
  if (threadIdx.x < 8)
    *reinterpret_cast<float4*>(y + threadIdx.x * 4 + (kBug ? 1 : 0)) = make_float4(x[0], 1, 2, 3);
}

template <bool kBug>
__global__ void dynamic_shared_memory(float* y, const float* x) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x + (kBug ? 8 : 0)] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = dynamic[(threadIdx.x ^ 1) + (kBug ? 8 : 0)];
}

enum class Ring { right, right_by_proxy_fence, no_empty_wait, not_published, published_by_another };

// One thread feeds two stages by bulk copies, a warp adds up. Copies may report to a barrier once the thread that ran
// its init has published it.
template <Ring kRing>
__global__ void ring(float* y, const float* x) {
  __shared__ alignas(16) float stage[2][32];
  __shared__ std::uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + i)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(shared_address(empty + i)) : "memory");
    }
    if (kRing == Ring::right_by_proxy_fence)
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    else if (kRing == Ring::right || kRing == Ring::no_empty_wait)
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (kRing == Ring::published_by_another) {
    __syncwarp();
    if (threadIdx.x == 1) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const auto wait = [](std::uint64_t* b, int parity) {
    asm volatile(
        "{\n.reg .pred p;\nW%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D%=;\nbra "
        "W%=;\nD%=:\n}" ::"r"(shared_address(b)),
        "r"(parity)
        : "memory");
  };
  constexpr int kTiles = 7;
  if (threadIdx.x == 32) {
    for (int t = 0; t < kTiles; ++t) {
      const int s = t % 2;
      if (kRing != Ring::no_empty_wait && t >= 2) wait(empty + s, (t / 2 - 1) & 1);
      asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], 128;\n}" ::"r"(
                       shared_address(full + s))
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(
              shared_address(stage[s])),
          "l"(x + t * 32), "r"(shared_address(full + s))
          : "memory");
    }
  } else if (threadIdx.x < 32) {
    float sum = 0;
    for (int t = 0; t < kTiles; ++t) {
      const int s = t % 2;
      wait(full + s, (t / 2) & 1);
      sum += stage[s][threadIdx.x];
      asm volatile(
          "{\n.reg .b64 t;\nmbarrier.arrive.shared::cta.b64 t, [%0];\n}" ::"r"(shared_address(empty + s))
          : "memory");
    }
    y[threadIdx.x] = sum;
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define ZT_SM90A(...) __VA_ARGS__
#else
#define ZT_SM90A(...)
#endif

// A 64x8 product of ones, twice over the same shared memory. kMistake: 0 none, 1 waits too late, 2 no proxy fence.
template <int kMistake>
__global__ void wgmma_products(float* y, const float*) {
  __shared__ alignas(128) __nv_bfloat16 a[64 * 16], b[8 * 16];
  float d[4] = {0, 0, 0, 0};
  for (int round = 0; round < 2; ++round) {
    for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = __float2bfloat16(1.f + round);
    if (threadIdx.x < 128) b[threadIdx.x] = __float2bfloat16(1.f);
    if (kMistake != 2) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const auto descriptor = [](const void* p) {
      return std::uint64_t((shared_address(p) & 0x3ffff) >> 4) | std::uint64_t{8} << 16 |
             std::uint64_t{16} << 32;
    };
    ZT_SM90A(asm volatile("wgmma.fence.sync.aligned;" :: : "memory"); asm volatile(
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, "
                 "1, 0, 0;" : "+f"(d[0]),
                 "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(descriptor(a)), "l"(descriptor(b)) : "memory");
             asm volatile("wgmma.commit_group.sync.aligned;" :: : "memory");
             if (kMistake != 1) asm volatile("wgmma.wait_group.sync.aligned 0;" :: : "memory");)
    __syncthreads();
  }
  ZT_SM90A(if (kMistake == 1) asm volatile("wgmma.wait_group.sync.aligned 0;" :: : "memory");)
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = d[i];
}

// A 64x8 product whose left operand is in registers. kBug: they are written after the fence.
template <bool kBug>
__global__ void wgmma_fragments(float* y, const float*) {
  __shared__ alignas(128) __nv_bfloat16 b[8 * 16];
  float d[4] = {0, 0, 0, 0};
  std::uint32_t a = 0x3f803f80u;
  b[threadIdx.x] = __float2bfloat16(1.f);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t descriptor =
      std::uint64_t((shared_address(b) & 0x3ffff) >> 4) | std::uint64_t{8} << 16 | std::uint64_t{16} << 32;
  if (!kBug) asm volatile("add.u32 %0, %0, %1;" : "+r"(a) : "r"(threadIdx.x) : "memory");
  ZT_SM90A(asm volatile("wgmma.fence.sync.aligned;" :: : "memory");)
  if (kBug) asm volatile("add.u32 %0, %0, %1;" : "+r"(a) : "r"(threadIdx.x) : "memory");
  ZT_SM90A(
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%4,%4,%4}, %5, "
                   "1, 1, 1, 0;" : "+f"(d[0]),
                   "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "l"(descriptor) : "memory");
      asm volatile("wgmma.commit_group.sync.aligned;" :: : "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" :: : "memory");)
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = d[i];
}

using Kernel = void (*)(float*, const float*);

struct Pair {
  const char* name;
  Kernel good, bad;
  int blocks, threads;
};

#define ZT_PAIR(name, kernel, blocks, threads) {name, kernel<false>, kernel<true>, blocks, threads}
const Pair kPairs[] = {
    ZT_PAIR("missing barrier before use", barrier_before_use, 1, 64),
    ZT_PAIR("missing barrier before reuse", barrier_before_reuse, 1, 64),
    ZT_PAIR("missing barrier in a block reduction", block_reduction, 1, 64),
    ZT_PAIR("plain add between blocks", atomic_between_blocks, 4, 32),
    ZT_PAIR("missing tail guard", tail_guard, 2, 64),
    ZT_PAIR("barrier in divergent code", barrier_in_a_branch, 1, 64),
    ZT_PAIR("two different barriers", two_barriers, 1, 64),
    ZT_PAIR("shuffle mask names absent lanes", shuffle_mask, 1, 32),
    ZT_PAIR("exchange without syncwarp", syncwarp_between_lanes, 1, 64),
    ZT_PAIR("host pointer", read_of, 1, 32),
    ZT_PAIR("uninitialised read", read_of, 1, 32),
    ZT_PAIR("copy read before its wait", copy_async_wait, 1, 64),
    ZT_PAIR("two blocks write one word", one_word_of_two_blocks, 4, 32),
    ZT_PAIR("misaligned vector", alignment, 1, 32),
    ZT_PAIR("dynamic shared memory too small", dynamic_shared_memory, 1, 64),
    {"ring without its empty wait", ring<Ring::right>, ring<Ring::no_empty_wait>, 1, 64},
    {"ring of barriers nobody published", ring<Ring::right>, ring<Ring::not_published>, 1, 64},
    {"ring of barriers another thread published", ring<Ring::right_by_proxy_fence>,
     ring<Ring::published_by_another>, 1, 64},
    {"wgmma waited for too late", wgmma_products<0>, wgmma_products<1>, 1, 128},
    {"missing proxy fence", wgmma_products<0>, wgmma_products<2>, 1, 128},
    ZT_PAIR("wgmma registers written after the fence", wgmma_fragments, 1, 128),
};

}  // namespace

int ptx_bug_count() { return sizeof(kPairs) / sizeof(kPairs[0]); }
const char* ptx_bug_name(int i) { return kPairs[i].name; }

void run_ptx_bug(int i, bool bug, float* y, const float* x, cudaStream_t stream) {
  const Pair& p = kPairs[i];
  (bug ? p.bad : p.good)<<<p.blocks, p.threads, p.threads * sizeof(float), stream>>>(y, x);
}
