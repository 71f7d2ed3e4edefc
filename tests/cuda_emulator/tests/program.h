// What the programs of these tests share.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cuda_emulator/emulator.h"

namespace zt::emulator {

#define ZT_DONE(call) REQUIRE_EQ(static_cast<int>(call), 0)

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  ZT_DONE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

inline cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  ZT_DONE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

template <typename T>
T* device_memory(std::size_t count) {
  void* p = nullptr;
  ZT_DONE(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}

template <typename T>
T* pinned_memory(std::size_t count) {
  void* p = nullptr;
  ZT_DONE(cudaMallocHost(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}

// Exactly one finding, and of that kind.
inline void check_only(const std::vector<Finding>& findings, const std::string& kind) {
  INFO(to_string(findings));
  REQUIRE_EQ(findings.size(), 1);
  CHECK_EQ(findings.front().kind, kind);
}

inline void check_none(const std::vector<Finding>& findings) {
  INFO(to_string(findings));
  CHECK(findings.empty());
}

}  // namespace zt::emulator
