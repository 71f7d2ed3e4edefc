#include "shard/gradient_sum.h"

#include "base/error.h"
#include "tensor/convert.h"

namespace zt::shard {

template <typename T>
static void add(T* dst, const float* src, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = rounded_to<T>(float(dst[i]) + src[i]);
}

void add_to(Dtype dtype, void* dst, const float* src, std::int64_t count) {
  if (dtype == Dtype::f32) return add(static_cast<float*>(dst), src, count);
  if (dtype == Dtype::bf16) return add(static_cast<bf16*>(dst), src, count);
  throw Error(Blame::bug, "gradients are float32 or bfloat16");
}

}  // namespace zt::shard
