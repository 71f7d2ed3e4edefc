#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx_conformance.h"

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Words {
  u32 w[kWords];
};

__device__ Words load(const u32* in) {
  Words x;
  for (int i = 0; i < kWords; ++i) x.w[i] = in[(blockIdx.x * 32 + threadIdx.x) * kWords + i];
  return x;
}
__device__ void store(u32* out, const Words& x) {
  for (int i = 0; i < kWords; ++i) out[(blockIdx.x * 32 + threadIdx.x) * kWords + i] = x.w[i];
}

__global__ void integers(u32* out, const u32* in) {
  const Words x = load(in);
  const u32 a = x.w[0], b = x.w[1], c = x.w[2];
  const int s = int(a), t = int(b);
  Words y;
  y.w[0] = a + b * c;
  y.w[1] = __umulhi(a, b);
  y.w[2] = u32(__mulhi(s, t));
  y.w[3] = a / (b | 1);
  y.w[4] = u32(s / (t | 1));
  y.w[5] = a % (b | 1);
  y.w[6] = u32(s % (t | 1));
  y.w[7] = u32(min(s, t)) ^ max(a, b);
  y.w[8] = u32(abs(s)) - min(a, b);
  y.w[9] = u32(s >> (c & 31)) + (a >> (c & 31)) + (a << (c & 31));
  y.w[10] = __sad(s, t, c) + __usad(a, b, c);
  asm("mad.hi.u32 %0, %1, %2, %3;" : "=r"(y.w[11]) : "r"(a), "r"(b), "r"(c));
  u32 low, high;
  asm("{add.cc.u32 %0, %2, %3;\naddc.u32 %1, 0, 0;}" : "=r"(low), "=r"(high) : "r"(a), "r"(b));
  y.w[12] = low ^ high;
  asm("add.sat.s32 %0, %1, %2;" : "=r"(y.w[13]) : "r"(s), "r"(t));
  y.w[14] = __dp4a(s, t, int(c));
  y.w[15] = u32(std::int16_t(a) * std::int16_t(b)) + std::uint16_t(a) * std::uint16_t(b);
  store(out, y);
}

__global__ void wide_integers(u32* out, const u32* in) {
  const Words x = load(in);
  const u64 a = u64(x.w[0]) << 32 | x.w[1], b = u64(x.w[2]) << 32 | x.w[3];
  const auto s = static_cast<long long>(a), t = static_cast<long long>(b);
  const u64 results[8] = {a * b + 7,
                          __umul64hi(a, b),
                          u64(__mul64hi(s, t)),
                          a / (b | 1),
                          u64(s / (t | 1)),
                          a % (b | 1),
                          u64(s >> (x.w[4] & 63)) ^ (a << (x.w[4] & 63)),
                          u64(min(s, t)) - max(a, b)};
  Words y;
  for (int i = 0; i < 8; ++i) {
    y.w[2 * i] = u32(results[i]);
    y.w[2 * i + 1] = u32(results[i] >> 32);
  }
  store(out, y);
}

__global__ void bits(u32* out, const u32* in) {
  const Words x = load(in);
  const u32 a = x.w[0], b = x.w[1], c = x.w[2];
  Words y;
  y.w[0] = __popc(a) + 100 * __clz(int(b));
  y.w[1] = __brev(a);
  y.w[2] = __byte_perm(a, b, c & 0x7777);
  y.w[3] = __funnelshift_l(a, b, c);
  y.w[4] = __funnelshift_r(a, b, c);
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(y.w[5]) : "r"(a), "r"(b), "r"(c));
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(y.w[6]) : "r"(a), "r"(b & 31), "r"(c & 31));
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(y.w[7]) : "r"(a), "r"(b & 31), "r"(c & 31));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(y.w[8]) : "r"(a), "r"(b), "r"(c & 31), "r"(c >> 5 & 31));
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y.w[9]) : "r"(a), "r"(b), "r"(c & 0xffff));
  asm("bfind.u32 %0, %1;" : "=r"(y.w[10]) : "r"(a));
  asm("bfind.shiftamt.s32 %0, %1;" : "=r"(y.w[11]) : "r"(b));
  y.w[12] = u32(__popcll(u64(a) << 32 | b)) + 100 * u32(__clzll(static_cast<long long>(u64(a) << 7)));
  y.w[13] = u32(__ffs(int(a)));
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(y.w[14]) : "r"(a & 63), "r"(b & 63));
  asm("cnot.b32 %0, %1;" : "=r"(y.w[15]) : "r"(a & 1));
  store(out, y);
}

__device__ float as_float(u32 x) { return __uint_as_float(x); }

__global__ void floats(u32* out, const u32* in) {
  const Words x = load(in);
  const float a = as_float(x.w[0]), b = as_float(x.w[1]), c = as_float(x.w[2]);
  const float r[kWords] = {__fmaf_rn(a, b, c), __fadd_rz(a, b), __fmul_ru(a, b),
                           __fadd_rd(a, c),    __fdiv_rn(a, b), __fsqrt_rn(fabsf(a)),
                           __frcp_rn(a),       fminf(a, b),     fmaxf(b, c),
                           copysignf(a, b),    __saturatef(a),  __fmaf_rz(a, b, c),
                           rintf(a),           floorf(b),       ceilf(c),
                           truncf(a)};
  Words y;
  for (int i = 0; i < kWords; ++i) y.w[i] = __float_as_uint(r[i]);
  store(out, y);
}

__global__ void doubles(u32* out, const u32* in) {
  const Words x = load(in);
  const double a = as_float(x.w[0]), b = as_float(x.w[1]), c = as_float(x.w[2]);
  const double r[8] = {fma(a, b, c), a / b,    sqrt(fabs(a)),      a * b - c,
                       fmin(a, b),   floor(c), double(int(a)) + b, 1.0 / c};
  Words y;
  for (int i = 0; i < 8; ++i) {
    const u64 bits_of = u64(__double_as_longlong(r[i]));
    y.w[2 * i] = u32(bits_of);
    y.w[2 * i + 1] = u32(bits_of >> 32);
  }
  store(out, y);
}

__global__ void halves(u32* out, const u32* in) {
  const Words x = load(in);
  const __nv_bfloat16 a = __float2bfloat16_rn(as_float(x.w[0])), b = __float2bfloat16_rn(as_float(x.w[1])),
                      c = __float2bfloat16_rn(as_float(x.w[2]));
  const __half d = __float2half_rn(as_float(x.w[0])), e = __float2half_rn(as_float(x.w[1])),
               f = __float2half_rn(as_float(x.w[2]));
  Words y;
  const __nv_bfloat16 r[8] = {__hadd(a, b), __hsub(a, b), __hmul(a, b), __hfma(a, b, c),
                              __hmax(a, b), __hmin(a, b), __hneg(a),    __habs(b)};
  const __half s[8] = {__hadd(d, e), __hsub(d, e), __hmul(d, e), __hfma(d, e, f),
                       __hmax(d, e), __hmin(d, e), __hneg(d),    __habs(e)};
  for (int i = 0; i < 8; ++i) {
    y.w[i] = __bfloat16_as_ushort(r[i]);
    y.w[8 + i] = __half_as_ushort(s[i]);
  }
  store(out, y);
}

__global__ void half_pairs(u32* out, const u32* in) {
  const Words x = load(in);
  const auto bf = [&](int i) { return __floats2bfloat162_rn(as_float(x.w[i]), as_float(x.w[i + 1])); };
  const auto hf = [&](int i) { return __floats2half2_rn(as_float(x.w[i]), as_float(x.w[i + 1])); };
  const __nv_bfloat162 r[8] = {
      __hadd2(bf(0), bf(2)), __hsub2(bf(0), bf(2)), __hmul2(bf(0), bf(2)), __hfma2(bf(0), bf(2), bf(4)),
      __hmax2(bf(0), bf(2)), __hmin2(bf(0), bf(2)), __hneg2(bf(0)),        __hfma2_relu(bf(0), bf(2), bf(4))};
  const __half2 s[8] = {
      __hadd2(hf(0), hf(2)), __hsub2(hf(0), hf(2)), __hmul2(hf(0), hf(2)), __hfma2(hf(0), hf(2), hf(4)),
      __hmax2(hf(0), hf(2)), __hmin2(hf(0), hf(2)), __hneg2(hf(0)),        __hfma2_relu(hf(0), hf(2), hf(4))};
  Words y;
  for (int i = 0; i < 8; ++i) {
    y.w[i] = *reinterpret_cast<const u32*>(&r[i]);
    y.w[8 + i] = *reinterpret_cast<const u32*>(&s[i]);
  }
  store(out, y);
}

__global__ void conversions(u32* out, const u32* in) {
  const Words x = load(in);
  const float a = as_float(x.w[0]);
  Words y;
  y.w[0] = u32(__float2int_rn(a));
  y.w[1] = u32(__float2int_rz(a));
  y.w[2] = u32(__float2int_rd(a));
  y.w[3] = __float2uint_ru(a);
  y.w[4] = __float_as_uint(__int2float_rn(int(x.w[1])));
  y.w[5] = __float_as_uint(__uint2float_rz(x.w[1]));
  y.w[6] = __float_as_uint(__ull2float_rn(u64(x.w[1]) << 20 | x.w[2]));
  y.w[7] = __bfloat16_as_ushort(__float2bfloat16_rz(a)) | u32(__bfloat16_as_ushort(__float2bfloat16_ru(a)))
                                                              << 16;
  y.w[8] = __half_as_ushort(__float2half_rd(a)) | u32(__half_as_ushort(__float2half_rz(a))) << 16;
  y.w[9] = u32(std::int8_t(x.w[1])) ^ std::uint8_t(x.w[2]);
  y.w[10] = __float_as_uint(__half2float(__ushort_as_half(std::uint16_t(x.w[1] & 0x7bff))));
  y.w[11] = __float_as_uint(__double2float_rn(double(a) * 1.000000001));
  y.w[12] = u32(static_cast<long long>(a));
  y.w[13] = u32(__double2int_rz(double(a) * 3));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y.w[14]) : "f"(a));
  asm("cvt.sat.u8.s32 %0, %1;" : "=r"(y.w[15]) : "r"(int(x.w[1]) >> 20));
  store(out, y);
}

__global__ void comparisons(u32* out, const u32* in) {
  const Words x = load(in);
  const float a = as_float(x.w[0]), b = threadIdx.x % 5 == 0 ? __int_as_float(0x7fc00000) : as_float(x.w[1]);
  const int s = int(x.w[0]), t = int(x.w[1]);
  Words y;
  y.w[0] = (a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5;
  y.w[1] = !(a < b) | !(a >= b) << 1;
  y.w[2] = (s < t) | (x.w[0] < x.w[1]) << 1 | (s == t) << 2;
  asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(y.w[3]) : "r"(x.w[2]), "r"(x.w[3]), "r"(s));
  asm("set.lt.u32.f32 %0, %1, %2;" : "=r"(y.w[4]) : "f"(a), "f"(b));
  asm("{.reg .pred p;\ntestp.notanumber.f32 p, %1;\nselp.u32 %0, 1, 0, p;}" : "=r"(y.w[5]) : "f"(b));
  asm("{.reg .pred p, q;\nsetp.ne.u32 q, %3, 0;\nsetp.lt.and.s32 p, %1, %2, q;\nselp.u32 %0, 1, 0, p;}"
      : "=r"(y.w[6])
      : "r"(s), "r"(t), "r"(x.w[2] & 1));
  y.w[7] = __hlt(__float2bfloat16(a), __float2bfloat16(b)) | u32(__hltu(__float2half(a), __float2half(b)))
                                                                 << 1;
  for (int i = 8; i < kWords; ++i) y.w[i] = 0;
  store(out, y);
}

__global__ void functions(u32* out, const u32* in) {
  const Words x = load(in);
  const float a = as_float(x.w[0]), p = fabsf(a) + 0.01f;
  float r[kWords] = {exp2f(a), __log2f(p), __sinf(a), __cosf(a), rsqrtf(p), __fdividef(1.f, p), expf(a),
                     logf(p),  tanhf(a),   erff(a),   sqrtf(p),  sinf(a),   powf(p, 1.5f)};
  asm("tanh.approx.f32 %0, %1;" : "=f"(r[13]) : "f"(a));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r[14]) : "f"(a * 3));
  r[15] = __expf(a);
  Words y;
  for (int i = 0; i < kWords; ++i) y.w[i] = __float_as_uint(r[i]);
  store(out, y);
}

__constant__ u32 constants[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ u32 globals[4] = {10, 20, 30, 40};

__global__ void memory(u32* out, const u32* in) {
  const Words x = load(in);
  __shared__ alignas(16) u32 shared[32 * 4];
  const int t = int(threadIdx.x);
  *reinterpret_cast<uint4*>(shared + t * 4) = make_uint4(x.w[0], x.w[1], x.w[2], x.w[3]);
  __syncthreads();
  const int other = 31 - t;
  volatile u32 local[8];
  for (int i = 0; i < 8; ++i) local[i] = x.w[i] + i;
  const u32* generic = t % 2 == 0 ? shared + other * 4 : in + (blockIdx.x * 32 + t) * kWords;
  Words y;
  y.w[0] = reinterpret_cast<const std::uint8_t*>(shared)[t * 3];
  y.w[1] = u32(reinterpret_cast<const std::int8_t*>(shared)[t * 3 + 1]);
  y.w[2] = reinterpret_cast<const std::uint16_t*>(shared)[other];
  y.w[3] = u32(reinterpret_cast<const std::int16_t*>(shared)[other + 1]);
  const uint2 two = *reinterpret_cast<const uint2*>(shared + other * 4);
  y.w[4] = two.x ^ two.y;
  const uint4 four = __ldg(reinterpret_cast<const uint4*>(in + (blockIdx.x * 32 + t) * kWords));
  y.w[5] = four.x + four.y + four.z + four.w;
  y.w[6] = local[x.w[5] % 8];
  y.w[7] = constants[x.w[6] % 8];
  y.w[8] = globals[x.w[7] % 4];
  y.w[9] = generic[1];
  y.w[10] = u32(*reinterpret_cast<const u64*>(shared + other * 4) >> 16);
  y.w[11] = __ldcs(in + (blockIdx.x * 32 + t) * kWords + 3);
  for (int i = 12; i < kWords; ++i) y.w[i] = x.w[i];
  store(out, y);
}

__global__ void atomics(u32* out, const u32* in) {
  __shared__ u32 sums[8];
  __shared__ float total;
  __shared__ u64 wide;
  const Words x = load(in);
  if (threadIdx.x < 8) sums[threadIdx.x] = threadIdx.x == 2 ? ~0u : 0;
  if (threadIdx.x == 0) {
    total = 0;
    wide = 0;
  }
  __syncthreads();
  atomicAdd(&sums[0], x.w[0]);
  atomicMax(&sums[1], x.w[1]);
  atomicMin(&sums[2], x.w[2]);
  atomicXor(&sums[3], x.w[3]);
  atomicOr(&sums[4], x.w[4]);
  atomicInc(&sums[5], 9);
  atomicCAS(&sums[6], 0u, threadIdx.x + 1);
  atomicAdd(&total, float(threadIdx.x));
  atomicAdd(reinterpret_cast<unsigned long long*>(&wide), static_cast<unsigned long long>(x.w[5]));
  __syncthreads();
  Words y;
  for (int i = 0; i < 8; ++i) y.w[i] = sums[i];
  y.w[6] = y.w[6] != 0;
  y.w[8] = __float_as_uint(total);
  y.w[9] = u32(wide);
  y.w[10] = u32(wide >> 32);
  for (int i = 11; i < kWords; ++i) y.w[i] = 0;
  store(out, y);
}

__global__ void warps(u32* out, const u32* in) {
  const Words x = load(in);
  const u32 a = x.w[0];
  Words y;
  y.w[0] = __shfl_sync(~0u, a, 5);
  y.w[1] = __shfl_xor_sync(~0u, a, 3);
  y.w[2] = __shfl_up_sync(~0u, a, 2, 16);
  y.w[3] = __shfl_down_sync(~0u, a, 3, 8);
  y.w[4] = __ballot_sync(~0u, a & 1);
  y.w[5] = u32(__any_sync(~0u, a == 0)) | u32(__all_sync(~0u, a != 0)) << 1;
  y.w[6] = __match_any_sync(~0u, a % 4);
  int same = 0;
  y.w[7] = __match_all_sync(~0u, blockIdx.x, &same) + u32(same);
  y.w[8] = __reduce_add_sync(~0u, a);
  y.w[9] = u32(__reduce_max_sync(~0u, int(a)));
  y.w[10] = __reduce_xor_sync(~0u, a);
  y.w[11] = threadIdx.x < 20 ? __activemask() : 0;
  y.w[12] = threadIdx.x >= 16 ? __shfl_xor_sync(0xffff0000u, a, 1) : a;
  u32 eq;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(eq));
  y.w[13] = eq;
  y.w[14] = u32(__shfl_sync(~0u, u64(a) << 8, 7) >> 8);
  y.w[15] = 0;
  store(out, y);
}

// Two halves of a block of 128 threads, each with a barrier of its own, and one that a half only arrives at.
__global__ void named_barriers(u32* out, const u32* in) {
  __shared__ u32 s[128];
  const u32 t = threadIdx.x, half = t / 64;
  const u32 base = blockIdx.x * 128;
  s[t] = in[base + t];
  asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
  u32 v = s[half * 64 + (t + 1) % 64];
  if (half == 0) {
    asm volatile("bar.arrive 3, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
    v += s[t - 64];
  }
  const int odd = __syncthreads_count(int(v & 1)), any = __syncthreads_or(int(v == 7)),
            all = __syncthreads_and(1);
  out[base + t] = v + u32(odd) * 3 + u32(any) * 5 + u32(all) * 7;
}

__global__ void branches(u32* out, const u32* in) {
  const Words x = load(in);
  Words y;
  u32 steps = 0, n = x.w[0] % 1000 + 1;
  while (n != 1 && steps < 200) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    ++steps;
  }
  y.w[0] = steps;
  u32 v = 0;
  asm("{\n.reg .pred p;\nT: .branchtargets A, B, C;\nbrx.idx %1, T;\nA: mov.u32 %0, 11;\nbra E;\nB: mov.u32 "
      "%0, 22;\nbra E;\nC: mov.u32 %0, 33;\nE:\n}"
      : "=r"(v)
      : "r"(x.w[1] % 3));
  y.w[1] = v;
  switch (x.w[2] % 6) {
    case 0: v = x.w[3]; break;
    case 1: v = x.w[3] * 3; break;
    case 2: v = x.w[3] / 5; break;
    case 3: v = ~x.w[3]; break;
    case 4: v = x.w[3] ^ x.w[4]; break;
    default: v = 1;
  }
  y.w[2] = v;
  for (int i = 3; i < kWords; ++i) y.w[i] = x.w[i];
  store(out, y);
}

__device__ u32 arrivals;

// The last block adds up what the others left: order by a fence and an atomic.
__global__ void fences(u32* out, const u32* in) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    out[blockIdx.x + 1] = in[blockIdx.x];
    __threadfence();
    last = atomicAdd(&arrivals, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  u32 sum = 0;
  for (u32 b = 0; b < gridDim.x; ++b) sum += out[b + 1];
  out[0] = sum;
  arrivals = 0;
}

}  // namespace

#define ZT_RUN(name)                                                                              \
  void run_##name(std::uint32_t* out, const std::uint32_t* in, int blocks, cudaStream_t stream) { \
    name<<<blocks, #name[0] == 'n' ? 128 : 32, 0, stream>>>(out, in);                             \
  }
ZT_CONFORMANCE_KERNELS(ZT_RUN)
