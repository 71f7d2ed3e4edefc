#include "ptx_matrices.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define ZT_SM90A(...) __VA_ARGS__
#else
#define ZT_SM90A(...)
#endif

namespace {

using u32 = std::uint32_t;

__device__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ void put_tile(float* out, const float (&d)[4]) {
  const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
  for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

template <bool kBf16>
__global__ void mma_16_bits(float* out, const u32* a, const u32* b) {
  const int row = threadIdx.x / 4, pair = threadIdx.x % 4;
  const u32 x[4] = {a[row * 8 + pair], a[(row + 8) * 8 + pair], a[row * 8 + pair + 4],
                    a[(row + 8) * 8 + pair + 4]};
  const u32 y[2] = {b[row * 8 + pair], b[row * 8 + pair + 4]};
  float d[4] = {0, 0, 0, 0};
#define ZT_MMA(type)                                                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]))
  if (kBf16)
    ZT_MMA("bf16");
  else
    ZT_MMA("f16");
  put_tile(out, d);
}

template <bool kBf16>
__global__ void mma_by_matrix_loads(float* out, const uint4* a, const uint4* b) {
  __shared__ uint4 sa[32], sb[16];
  sa[threadIdx.x] = a[threadIdx.x];                        // [16][16]
  if (threadIdx.x < 16) sb[threadIdx.x] = b[threadIdx.x];  // [16][8]
  __syncwarp();
  u32 x[4], y[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(&sa[threadIdx.x % 16 * 2 + threadIdx.x / 16]))
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(y[0]), "=r"(y[1])
               : "r"(shared_address(&sb[threadIdx.x % 16]))
               : "memory");
  float d[4] = {0, 0, 0, 0};
  if (kBf16)
    ZT_MMA("bf16");
  else
    ZT_MMA("f16");
  put_tile(out, d);
}

__global__ void mma_tf32(float* out, const float* a, const float* b) {
  const int row = threadIdx.x / 4, k = threadIdx.x % 4;
  const float x[4] = {a[row * 8 + k], a[(row + 8) * 8 + k], a[row * 8 + k + 4], a[(row + 8) * 8 + k + 4]};
  const float y[2] = {b[row * 8 + k], b[row * 8 + k + 4]};
  float d[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(x[0])), "r"(__float_as_uint(x[1])), "r"(__float_as_uint(x[2])),
        "r"(__float_as_uint(x[3])), "r"(__float_as_uint(y[0])), "r"(__float_as_uint(y[1])));
  put_tile(out, d);
}

// The descriptor of an operand of `rows` x 16: where it starts, and the strides between its 8x8 parts.
__device__ std::uint64_t descriptor(const void* p, int swizzle, bool transposed, int rows) {
  u32 leading = 0, stride = 0;
  if (swizzle == 0) {  // parts of 128 bytes: along the rows first
    leading = transposed ? rows / 8 * 128 : rows / 8 * 128;
    stride = 128;
  } else if (!transposed) {
    leading = 16;
    stride = 8 * swizzle;
  } else {
    stride = 8 * swizzle;       // to the next 8 of k
    leading = 2 * 8 * swizzle;  // to the next swizzle/2 rows
  }
  const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return std::uint64_t((shared_address(p) & 0x3ffff) >> 4) | std::uint64_t(leading / 16) << 16 |
         std::uint64_t(stride / 16) << 32 | mode << 62;
}

// Where an element lies, in bytes from the operand's start, which is 1024-byte aligned.
__device__ u32 place(int row, int k, int swizzle, bool transposed, int rows) {
  u32 at = 0;
  if (swizzle == 0)
    at = transposed ? k / 8 * (rows / 8 * 128) + row / 8 * 128 + k % 8 * 16 + row % 8 * 2
                    : k / 8 * (rows / 8 * 128) + row / 8 * 128 + row % 8 * 16 + k % 8 * 2;
  else if (!transposed)
    at = row * swizzle + k * 2;
  else
    at = row / (swizzle / 2) * (2 * 8 * swizzle) + k * swizzle + row % (swizzle / 2) * 2;
  if (swizzle != 0) at ^= (at >> 7 & (swizzle / 16 - 1)) << 4;
  return at;
}

template <int kTransA, int kTransB>
__device__ void product_64(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  ZT_SM90A(asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%"
                        "23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 0, 1, 1, %34, %35;" : "+f"(d[0]),
                        "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                        "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
                        "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a),
                        "l"(b), "n"(kTransA), "n"(kTransB) : "memory");)
}

template <int kTransB>
__device__ void product_64_registers(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  ZT_SM90A(
      asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                   "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%"
                   "24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 0, 1, 1, %37;" : "+f"(d[0]),
                   "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                   "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                   "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "n"(kTransB) : "memory");)
}

template <int kTransA, int kTransB>
__device__ void product_128(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  ZT_SM90A(
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
          "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%"
          "26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%"
          "50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 0, 1, 1, %66, %67;" : "+f"(
              d[0]),
          "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
          "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
          "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
          "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
          "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
          "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "l"(a), "l"(b),
          "n"(kTransA), "n"(kTransB) : "memory");)
}

template <int kTransB>
__device__ void product_128_registers(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  ZT_SM90A(asm volatile(
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%"
               "25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%"
               "48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 0, "
               "1, 1, %69;" : "+f"(d[0]),
               "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
               "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
               "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
               "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
               "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
               "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
               "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
               "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransB) : "memory");)
}

template <int kN, bool kARegisters, int kTransA, int kTransB>
__global__ void wgmma_case(float* out, const std::uint16_t* a, const std::uint16_t* b, int swizzle) {
  __shared__ alignas(1024) char sa[64 * 128], sb[128 * 128];
  for (int i = threadIdx.x; i < 64 * 16; i += 128)
    *reinterpret_cast<std::uint16_t*>(sa + place(i / 16, i % 16, swizzle, kTransA, 64)) = a[i];
  for (int i = threadIdx.x; i < kN * 16; i += 128)
    *reinterpret_cast<std::uint16_t*>(sb + place(i / 16, i % 16, swizzle, kTransB, kN)) = b[i];
  ZT_SM90A(asm volatile("fence.proxy.async.shared::cta;" :: : "memory");)
  __syncthreads();
  float d[kN / 2];
  for (float& x : d) x = 1e30f;  // scale-d of 0 forgets it
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4;
  const auto* pairs = reinterpret_cast<const u32*>(a);
  const u32 x[4] = {pairs[row * 8 + lane % 4], pairs[(row + 8) * 8 + lane % 4], pairs[row * 8 + lane % 4 + 4],
                    pairs[(row + 8) * 8 + lane % 4 + 4]};
  ZT_SM90A(asm volatile("wgmma.fence.sync.aligned;" :: : "memory");)
  const std::uint64_t da = descriptor(sa, swizzle, kTransA, 64), db = descriptor(sb, swizzle, kTransB, kN);
  if constexpr (kN == 64 && kARegisters) product_64_registers<kTransB>(d, x, db);
  if constexpr (kN == 64 && !kARegisters) product_64<kTransA, kTransB>(d, da, db);
  if constexpr (kN == 128 && kARegisters) product_128_registers<kTransB>(d, x, db);
  if constexpr (kN == 128 && !kARegisters) product_128<kTransA, kTransB>(d, da, db);
  ZT_SM90A(asm volatile("wgmma.commit_group.sync.aligned;" :: : "memory");
           asm volatile("wgmma.wait_group.sync.aligned 0;" :: : "memory");)
  for (int i = 0; i < kN / 2; ++i) out[(row + i / 2 % 2 * 8) * kN + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

__global__ void zero_fill(u32* y, const u32* x, int valid) {
  __shared__ uint4 s[32];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(s + threadIdx.x)),
               "l"(x + threadIdx.x * 4), "r"(valid)
               : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  reinterpret_cast<uint4*>(y)[threadIdx.x] = s[threadIdx.x];
}

template <int kN, bool kARegisters, int kTransA>
void run_case(const WgmmaCase& c, float* d, const std::uint16_t* a, const std::uint16_t* b,
              cudaStream_t stream) {
  if (c.b_transposed)
    wgmma_case<kN, kARegisters, kTransA, 1><<<1, 128, 0, stream>>>(d, a, b, c.swizzle);
  else
    wgmma_case<kN, kARegisters, kTransA, 0><<<1, 128, 0, stream>>>(d, a, b, c.swizzle);
}

template <int kN>
void run_n(const WgmmaCase& c, float* d, const std::uint16_t* a, const std::uint16_t* b,
           cudaStream_t stream) {
  if (c.a_registers)
    run_case<kN, true, 0>(c, d, a, b, stream);
  else if (c.a_transposed)
    run_case<kN, false, 1>(c, d, a, b, stream);
  else
    run_case<kN, false, 0>(c, d, a, b, stream);
}

}  // namespace

void run_mma(Format format, bool matrix_loads, float* d, const void* a, const void* b, cudaStream_t stream) {
  const auto *a16 = static_cast<const u32*>(a), *b16 = static_cast<const u32*>(b);
  const auto *a128 = static_cast<const uint4*>(a), *b128 = static_cast<const uint4*>(b);
  if (format == Format::tf32)
    mma_tf32<<<1, 32, 0, stream>>>(d, static_cast<const float*>(a), static_cast<const float*>(b));
  else if (format == Format::bf16 && matrix_loads)
    mma_by_matrix_loads<true><<<1, 32, 0, stream>>>(d, a128, b128);
  else if (format == Format::bf16)
    mma_16_bits<true><<<1, 32, 0, stream>>>(d, a16, b16);
  else if (matrix_loads)
    mma_by_matrix_loads<false><<<1, 32, 0, stream>>>(d, a128, b128);
  else
    mma_16_bits<false><<<1, 32, 0, stream>>>(d, a16, b16);
}

void run_wgmma(const WgmmaCase& c, float* d, const std::uint16_t* a, const std::uint16_t* b,
               cudaStream_t stream) {
  c.n == 64 ? run_n<64>(c, d, a, b, stream) : run_n<128>(c, d, a, b, stream);
}

void run_zero_fill(int valid, std::uint32_t* y, const std::uint32_t* x, cudaStream_t stream) {
  zero_fill<<<1, 32, 0, stream>>>(y, x, valid);
}
