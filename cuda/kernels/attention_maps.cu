#include "base/error.h"
#include "base/text.h"
#include "kernels/attention_maps.cuh"
#include "kernels/attention_shapes.h"

namespace zt::kernels {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function; the program does not link the driver, so that it starts on machines without one.
Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &result),
                "cannot describe matrices to the GPU");
    if (result != cudaDriverEntryPointSuccess)
      throw Error(Blame::machine, "the CUDA driver has no cuTensorMapEncodeTiled",
                  "it must be of CUDA 12 or later");
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

CUtensorMap map_of(const HeadRows& x, int tokens, int columns, int box_rows) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(tokens)};
  const cuuint64_t row_bytes[1] = {cuuint64_t(x.stride) * 2};
  const cuuint32_t box[2] = {64, cuuint32_t(box_rows)}, steps[2] = {1, 1};
  const auto type =
      x.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult result = encoder()(&map, type, 2, x.data, sizes, row_bytes, box, steps,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(Blame::bug, cat("attention: no tensor map of ", tokens, " x ", columns, " numbers, rows ",
                                x.stride, " apart: error ", int(result)));
  return map;
}

}  // namespace

AttentionMaps::AttentionMaps(const AttentionCall& call, int query_rows, int key_rows)
    : q(map_of(call.q, call.tokens, call.heads * call.head_size, query_rows)),
      k(map_of(call.k, call.tokens, call.kv_heads * call.head_size, key_rows)),
      v(map_of(call.v, call.tokens, call.kv_heads * call.head_size, key_rows)) {}

AttentionGradMaps::AttentionGradMaps(const AttentionCall& call, int query_rows, int key_rows)
    : AttentionMaps(call, query_rows, key_rows),
      grad(map_of(call.grad, call.tokens, call.heads * call.head_size, query_rows)) {}

}  // namespace zt::kernels
