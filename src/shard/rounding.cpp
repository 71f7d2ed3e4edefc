#include "shard/rounding.h"

#include <algorithm>

#include "base/error.h"

namespace zt::shard {
namespace {

template <typename T, typename Body>
void each(T* data, std::int64_t count, Body body) {
  for (std::int64_t i = 0; i < count; ++i) body(data[i], i);
}

}  // namespace

void round_to(Dtype dtype, const float* src, void* dst, std::int64_t count) {
  switch (dtype) {
    case Dtype::f32: std::copy_n(src, count, static_cast<float*>(dst)); return;
    case Dtype::bf16:
      return each(static_cast<bf16*>(dst), count, [&](bf16& d, std::int64_t i) { d = bf16(src[i]); });
    case Dtype::f16:
      return each(static_cast<f16*>(dst), count, [&](f16& d, std::int64_t i) { d = f16(src[i]); });
    case Dtype::i32: throw Error(Blame::bug, "weights are not integers");
  }
}

void widen(Dtype dtype, const void* src, float* dst, std::int64_t count) {
  switch (dtype) {
    case Dtype::f32: std::copy_n(static_cast<const float*>(src), count, dst); return;
    case Dtype::bf16:
      return each(static_cast<const bf16*>(src), count, [&](bf16 s, std::int64_t i) { dst[i] = float(s); });
    case Dtype::f16:
      return each(static_cast<const f16*>(src), count, [&](f16 s, std::int64_t i) { dst[i] = float(s); });
    case Dtype::i32: throw Error(Blame::bug, "weights are not integers");
  }
}

void add_to(Dtype dtype, void* dst, const float* src, std::int64_t count) {
  if (dtype == Dtype::f32)
    each(static_cast<float*>(dst), count, [&](float& d, std::int64_t i) { d += src[i]; });
  else if (dtype == Dtype::bf16)
    each(static_cast<bf16*>(dst), count, [&](bf16& d, std::int64_t i) { d = bf16(float(d) + src[i]); });
  else
    throw Error(Blame::bug, "gradients are float32 or bfloat16");
}

}  // namespace zt::shard
