// How kernels move numbers between device memory and registers: kVec elements of a row at a time, widened to fp32,
// by 16-byte accesses where kVec > 1 and the elements are all there.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/loops.h"

namespace zt::kernels {

// Calls f with a value of the device's type for a format.
template <typename F>
void with_device_type(Dtype dtype, const char* kernel, F f) {
  with_type(dtype, kernel, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, bf16>)
      f(__nv_bfloat16());
    else if constexpr (std::is_same_v<T, f16>)
      f(__half());
    else
      f(float());
  });
}

// Elements a thread takes at once of rows of these types: 16 bytes of the narrowest.
template <typename... Ts>
constexpr int kWidest = ((sizeof(Ts) == 2) || ...) ? 8 : 4;

// Rows of a typed matrix in device memory; absent views have no data.
template <typename T>
struct DeviceRows {
  T* data = nullptr;
  std::int64_t stride = 0;

  DeviceRows() = default;
  explicit DeviceRows(const View& v) : data(static_cast<T*>(v.data)), stride(v.stride) {}
  __device__ T* at(std::int64_t row, std::int64_t col) const { return data + row * stride + col; }
};

// Whether every chunk of `vec` columns of every row starts on a 16-byte boundary (where a chunk is that long).
inline bool all_aligned(std::initializer_list<View> views, int vec) {
  for (const View& v : views) {
    if (!v) continue;
    if (reinterpret_cast<std::uintptr_t>(v.data) % 16 != 0) return false;
    if (v.rows > 1 && v.stride % vec != 0) return false;
  }
  return true;
}

__device__ inline float widened(float x) { return x; }
__device__ inline float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widened(__half x) { return __half2float(x); }

template <typename T>
__device__ T narrowed(float x);
template <>
__device__ inline float narrowed<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 narrowed<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrowed<__half>(float x) {
  return __float2half_rn(x);
}

// Two numbers of 16 bits in a word, the first in the low half.
template <typename T>
__device__ float2 unpacked(std::uint32_t word);
template <>
__device__ inline float2 unpacked<__nv_bfloat16>(std::uint32_t word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
template <>
__device__ inline float2 unpacked<__half>(std::uint32_t word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
template <typename T>
__device__ std::uint32_t packed(float low, float high);
template <>
__device__ inline std::uint32_t packed<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <>
__device__ inline std::uint32_t packed<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

// As many elements as 16 bytes hold.
template <typename T>
__device__ void unpack(const uint4& words, float* x) {
  const std::uint32_t all[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      x[i] = __uint_as_float(all[i]);
    } else {
      const float2 pair = unpacked<T>(all[i]);
      x[2 * i] = pair.x;
      x[2 * i + 1] = pair.y;
    }
  }
}
template <typename T>
__device__ uint4 pack(const float* x) {
  std::uint32_t all[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      all[i] = __float_as_uint(x[i]);
    else
      all[i] = packed<T>(x[2 * i], x[2 * i + 1]);
  }
  return {all[0], all[1], all[2], all[3]};
}

// The first `count` of kVec elements; the others become 0.
template <int kVec, typename T>
__device__ void load(const T* from, int count, float (&x)[kVec]) {
  constexpr int kEach = 16 / int(sizeof(T));
  if (kVec >= kEach && count >= kVec) {
#pragma unroll
    for (int i = 0; i < kVec; i += kEach) unpack<T>(*reinterpret_cast<const uint4*>(from + i), x + i);
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i) x[i] = i < count ? widened(from[i]) : 0.f;
  }
}
template <int kVec, typename T>
__device__ void store(T* to, int count, const float (&x)[kVec]) {
  constexpr int kEach = 16 / int(sizeof(T));
  if (kVec >= kEach && count >= kVec) {
#pragma unroll
    for (int i = 0; i < kVec; i += kEach) *reinterpret_cast<uint4*>(to + i) = pack<T>(x + i);
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      if (i < count) to[i] = narrowed<T>(x[i]);
  }
}

}  // namespace zt::kernels
