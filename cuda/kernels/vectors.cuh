// How kernels move numbers between device memory and registers: kVec elements of a row at a time, widened to fp32,
// by accesses of 16 bytes (8 of what is half as wide as its partner) where kVec > 1 and the elements are all there.
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

// Elements a thread takes at once of rows of these types: 16 bytes of the widest, so that each access of a warp covers
// whole sectors.
template <typename... Ts>
constexpr int kWidest = ((sizeof(Ts) == 2) && ...) ? 8 : 4;

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

template <typename T>
__device__ void unpack(std::uint32_t word, float* x) {
  if constexpr (sizeof(T) == 4) {
    *x = __uint_as_float(word);
  } else {
    const float2 pair = unpacked<T>(word);
    x[0] = pair.x;
    x[1] = pair.y;
  }
}
template <typename T>
__device__ std::uint32_t pack(const float* x) {
  if constexpr (sizeof(T) == 4)
    return __float_as_uint(*x);
  else
    return packed<T>(x[0], x[1]);
}

// One access of 16 bytes, or of 8 where kVec elements are no more.
template <int kVec, typename T>
struct Access {
  static constexpr int kBytes = kVec * int(sizeof(T)) < 16 ? 8 : 16;
  static constexpr int kEach = kBytes / int(sizeof(T));  // elements
  static constexpr int kPerWord = 4 / int(sizeof(T));
  static constexpr bool kFits = kVec % kEach == 0;  // else elements go one by one

  __device__ static void load(const T* from, float* x) {
    if constexpr (kBytes == 16) {
      const uint4 words = *reinterpret_cast<const uint4*>(from);
      unpack<T>(words.x, x);
      unpack<T>(words.y, x + kPerWord);
      unpack<T>(words.z, x + 2 * kPerWord);
      unpack<T>(words.w, x + 3 * kPerWord);
    } else {
      const uint2 words = *reinterpret_cast<const uint2*>(from);
      unpack<T>(words.x, x);
      unpack<T>(words.y, x + kPerWord);
    }
  }
  __device__ static void store(T* to, const float* x) {
    if constexpr (kBytes == 16)
      *reinterpret_cast<uint4*>(to) =
          uint4{pack<T>(x), pack<T>(x + kPerWord), pack<T>(x + 2 * kPerWord), pack<T>(x + 3 * kPerWord)};
    else
      *reinterpret_cast<uint2*>(to) = uint2{pack<T>(x), pack<T>(x + kPerWord)};
  }
};

// The first `count` of kVec elements; the others become 0.
template <int kVec, typename T>
__device__ void load(const T* from, int count, float (&x)[kVec]) {
  using One = Access<kVec, T>;
  if (One::kFits && count >= kVec) {
    if constexpr (One::kFits) {
#pragma unroll
      for (int i = 0; i < kVec; i += One::kEach) One::load(from + i, x + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i) x[i] = i < count ? widened(from[i]) : 0.f;
  }
}
template <int kVec, typename T>
__device__ void store(T* to, int count, const float (&x)[kVec]) {
  using One = Access<kVec, T>;
  if (One::kFits && count >= kVec) {
    if constexpr (One::kFits) {
#pragma unroll
      for (int i = 0; i < kVec; i += One::kEach) One::store(to + i, x + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      if (i < count) to[i] = narrowed<T>(x[i]);
  }
}

}  // namespace zt::kernels
