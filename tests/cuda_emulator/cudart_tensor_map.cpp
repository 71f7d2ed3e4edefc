// The one entry point of the driver that programs fetch through libcudart: cuTensorMapEncodeTiled.
#include <cuda.h>

#include <cstring>
#include <string>

#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"
#include "cuda_emulator/ptx/tensor_map.h"

using namespace zt::emulator;

namespace zt::emulator {
namespace {

int bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return 4;
    default: return 0;
  }
}

int bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return -1;
  }
}

// The driver's own conditions (CUDA driver API, cuTensorMapEncodeTiled), for what the backend uses: no interleaving, no
// strides between elements.
bool allowed(const ptx::TensorMap& map, CUtensorMapInterleave interleave, const cuuint32_t* element_strides,
             int swizzle) {
  if (map.element_bytes == 0 || swizzle < 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return false;
  if (map.rank < 1 || map.rank > 5 || map.address % 16 != 0) return false;
  for (int i = 0; i < map.rank; ++i) {
    if (map.size[i] == 0 || map.box[i] == 0 || map.box[i] > 256 || element_strides[i] != 1) return false;
    if (i > 0 && map.stride[i - 1] % 16 != 0) return false;
  }
  const std::uint32_t row = map.box[0] * map.element_bytes;
  return row % 16 == 0 && (swizzle == 0 || row <= std::uint32_t(swizzle));
}

CUresult encode(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* size, const cuuint64_t* stride, const cuuint32_t* box,
                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  ptx::TensorMap map;
  map.rank = std::uint8_t(rank);
  map.element_bytes = std::uint8_t(bytes_of(type));
  map.swizzle = std::uint8_t(bytes_of(swizzle) < 0 ? 0 : bytes_of(swizzle));
  map.not_a_number = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  map.address = reinterpret_cast<std::uint64_t>(address);
  for (cuuint32_t i = 0; i < rank; ++i) {
    map.size[i] = std::uint32_t(size[i]);
    map.box[i] = box[i];
    if (i > 0) map.stride[i - 1] = stride[i - 1];
  }
  if (!allowed(map, interleave, element_strides, bytes_of(swizzle))) return CUDA_ERROR_INVALID_VALUE;
  std::memset(to, 0, sizeof *to);
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace zt::emulator

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  const bool known = std::string(symbol) == "cuTensorMapEncodeTiled";
  *function = known ? reinterpret_cast<void*>(&encode) : nullptr;
  if (result != nullptr) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return known ? cudaSuccess : fail(cudaErrorInvalidValue);
}
