// Products of warpgroups, copies by tensor maps and the barriers between them, for sm_90a. Sources: PTX ISA, "Asynchronous
// warpgroup level matrix instructions" (fragments, descriptors, 128-byte swizzle), "cp.async.bulk.tensor", "mbarrier".
//
// Tiles are panels of 64 columns, 128 bytes a row, in the 128-byte swizzle: 16-byte piece c of row r lies where piece
// c ^ (r % 8) would. Panels start at multiples of 1024 bytes.
//
// Kernels that use these have bodies for __CUDA_ARCH_FEAT_SM90_ALL alone.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace zt::kernels {

constexpr int kPanelColumns = 64, kPanelRowBytes = 128;

__device__ __forceinline__ std::uint32_t shared_at(const void* p) {
  return std::uint32_t(__cvta_generic_to_shared(p));
}

// A barrier in shared memory that threads arrive at and copies report bytes to. Phases alternate between 0 and 1.
class CopyBarrier {
 public:
  __device__ __forceinline__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at()), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(at()) : "memory");
  }
  // Arrives, and the phase also waits for this many bytes.
  __device__ __forceinline__ void arrive_expecting(int bytes) {
    asm volatile("{.reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;}" ::"r"(at()),
                 "r"(bytes)
                 : "memory");
  }
  // Returns when the phase of this parity is over.
  __device__ __forceinline__ void wait(int parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over_%=;\nbra again_%=;\nover_%=:\n}" ::"r"(at()),
        "r"(parity)
        : "memory");
  }
  __device__ __forceinline__ std::uint32_t at() const { return shared_at(&word_); }

 private:
  std::uint64_t word_;
};

// Makes barriers' first state visible to copies.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One box of a map to shared memory, from this column and row on; zeros where the matrix ends.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, int column, int row,
                                         CopyBarrier& full) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(shared_at(to)),
      "l"(map), "r"(column), "r"(row), "r"(full.at())
      : "memory");
}

// Gives registers back, and takes them.
template <int kRegisters>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Before the first product after registers or shared memory were written; a group of products ends with commit.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Registers that products in flight read or write: the compiler must not move or copy them meanwhile.
template <int kCount>
__device__ __forceinline__ void hold(float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

// Descriptor of a panel whose rows are the product's rows (left) or columns (right): summed along its 128-byte rows.
__device__ __forceinline__ std::uint64_t along_rows(const void* panel) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = std::uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | std::uint64_t{1} << 16 | (shared_at(panel) & 0x3ffff) >> 4;
}
// Descriptor of panels whose columns are the product's columns: summed down their rows. `panel_bytes` apart.
__device__ __forceinline__ std::uint64_t down_rows(const void* panel, int panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = std::uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | std::uint64_t(panel_bytes / 16) << 16 | (shared_at(panel) & 0x3ffff) >> 4;
}

// clang-format off
#define ZT_8(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define ZT_32(c, i) ZT_8(c, i), ZT_8(c, i + 8), ZT_8(c, i + 16), ZT_8(c, i + 24)
#define ZT_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ZT_NAMES_64 ZT_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define ZT_SUMS_32 ZT_32(c, 0)
#define ZT_SUMS_64 ZT_32(c, 0), ZT_32(c, 32)

// c (64 x 64 or 64 x 128) = a b^T, or += where `add`; both in shared memory, 16 numbers along their rows.
#define ZT_PRODUCT_ALONG(T, TYPE, N, COUNT, NAMES, SUMS, A, B, ADD) \
template <> __device__ __forceinline__ void product_along<T>(float (&c)[COUNT], std::uint64_t a, std::uint64_t b, int add) { \
  asm volatile("{\n.reg .pred sums;\nsetp.ne.b32 sums, %" ADD ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" NAMES "}, %" A ", %" B ", sums, 1, 1, 0, 0;\n}" \
    : SUMS : "l"(a), "l"(b), "r"(add)); \
}
template <typename T> __device__ void product_along(float (&c)[32], std::uint64_t a, std::uint64_t b, int add);
template <typename T> __device__ void product_along(float (&c)[64], std::uint64_t a, std::uint64_t b, int add);
ZT_PRODUCT_ALONG(__nv_bfloat16, "bf16", "64", 32, ZT_NAMES_32, ZT_SUMS_32, "32", "33", "34")
ZT_PRODUCT_ALONG(__half, "f16", "64", 32, ZT_NAMES_32, ZT_SUMS_32, "32", "33", "34")
ZT_PRODUCT_ALONG(__nv_bfloat16, "bf16", "128", 64, ZT_NAMES_64, ZT_SUMS_64, "64", "65", "66")
ZT_PRODUCT_ALONG(__half, "f16", "128", 64, ZT_NAMES_64, ZT_SUMS_64, "64", "65", "66")

// c (64 x 64 or 64 x 128) += p b: p (64 x 16) in registers, b's 16 rows in shared memory.
#define ZT_PRODUCT_DOWN(T, TYPE, N, COUNT, NAMES, SUMS, P0, P1, P2, P3, B) \
template <> __device__ __forceinline__ void product_down<T>(float (&c)[COUNT], const std::uint32_t (&p)[4], std::uint64_t b) { \
  asm volatile("{\n.reg .pred sums;\nsetp.ne.b32 sums, 1, 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" NAMES "}, {%" P0 ", %" P1 ", %" P2 ", %" P3 "}, " \
    "%" B ", sums, 1, 1, 1;\n}" : SUMS : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(b)); \
}
template <typename T> __device__ void product_down(float (&c)[32], const std::uint32_t (&p)[4], std::uint64_t b);
template <typename T> __device__ void product_down(float (&c)[64], const std::uint32_t (&p)[4], std::uint64_t b);
ZT_PRODUCT_DOWN(__nv_bfloat16, "bf16", "64", 32, ZT_NAMES_32, ZT_SUMS_32, "32", "33", "34", "35", "36")
ZT_PRODUCT_DOWN(__half, "f16", "64", 32, ZT_NAMES_32, ZT_SUMS_32, "32", "33", "34", "35", "36")
ZT_PRODUCT_DOWN(__nv_bfloat16, "bf16", "128", 64, ZT_NAMES_64, ZT_SUMS_64, "64", "65", "66", "67", "68")
ZT_PRODUCT_DOWN(__half, "f16", "128", 64, ZT_NAMES_64, ZT_SUMS_64, "64", "65", "66", "67", "68")
#undef ZT_8
#undef ZT_32
#undef ZT_NAMES_32
#undef ZT_NAMES_64
#undef ZT_SUMS_32
#undef ZT_SUMS_64
#undef ZT_PRODUCT_ALONG
#undef ZT_PRODUCT_DOWN
// clang-format on

}  // namespace zt::kernels
