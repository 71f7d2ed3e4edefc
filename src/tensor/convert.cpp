#include "tensor/convert.h"

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace zt {
namespace {

// Mapped tensors may begin at any byte, so values are copied in and out; the compiler makes plain moves of
// it.
template <typename From, typename To>
void convert_values(const std::byte* src, std::byte* dst, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, src + i * std::int64_t(sizeof(From)), sizeof(From));
    const To to = rounded_to<To>(static_cast<float>(from));
    std::memcpy(dst + i * std::int64_t(sizeof(To)), &to, sizeof(To));
  }
}

template <typename From>
void convert_from(const std::byte* src, std::byte* dst, Dtype dst_dtype, std::int64_t count) {
  switch (dst_dtype) {
    case Dtype::f32: return convert_values<From, float>(src, dst, count);
    case Dtype::bf16: return convert_values<From, bf16>(src, dst, count);
    case Dtype::f16: return convert_values<From, f16>(src, dst, count);
    case Dtype::i32: break;
  }
  throw Error(Blame::bug, cat("weights were asked for as ", name(dst_dtype)));
}

}  // namespace

void convert(const void* from, Dtype src_dtype, void* dst, Dtype dst_dtype, std::int64_t count) {
  if (count == 0) return;
  const auto* const src = static_cast<const std::byte*>(from);
  std::byte* const out = static_cast<std::byte*>(dst);
  if (src_dtype == dst_dtype) {
    std::memcpy(out, src, std::size_t(count) * std::size_t(size_of(src_dtype)));
    return;
  }
  switch (src_dtype) {
    case Dtype::f32: return convert_from<float>(src, out, dst_dtype, count);
    case Dtype::bf16: return convert_from<bf16>(src, out, dst_dtype, count);
    case Dtype::f16: return convert_from<f16>(src, out, dst_dtype, count);
    case Dtype::i32: break;
  }
  throw Error(Blame::bug, cat("weights were given as ", name(src_dtype)));
}

}  // namespace zt
