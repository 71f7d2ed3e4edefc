// How the emulator ends a program: for objects of another toolkit, for what it does not know, for findings nobody took.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "program.h"
#include "stops.h"

extern "C" void** __cudaRegisterFatBinary(void* wrapper);

namespace zt::emulator {
namespace {

// What nvcc leaves in an object: a wrapper that points to a header and the text behind it.
struct FatBinaryImage {
  struct {
    std::uint32_t magic = 0xba55ed50;
    std::uint16_t version = 1, header_bytes = 16;
    std::uint64_t bytes = 0;
  } header;
  char text[240] = {};
};
struct Wrapper {
  std::uint32_t magic = 0x466243b1, version = 1;
  const FatBinaryImage* image = nullptr;
  void* more = nullptr;
};

std::string registering(const std::string& text, std::uint32_t magic = 0x466243b1) {
  FatBinaryImage image;
  image.header.bytes = text.size() + 1;
  std::memcpy(image.text, text.c_str(), text.size() + 1);
  Wrapper wrapper{magic, 1, &image, nullptr};
  return stopped_with([&] { __cudaRegisterFatBinary(&wrapper); });
}

TEST_CASE("an object is taken only if CUDA 13.0 made it, with one readable PTX text") {
  const std::string rest = "\n.target sm_90a\n.address_size 64\n";
  CHECK_EQ(registering(".version 9.0" + rest), "");
  CHECK(registering(".version 8.8" + rest).find("is made for CUDA 13.0") != std::string::npos);
  CHECK(registering(".version 8.8" + rest).find(".version 8.8") != std::string::npos);
  CHECK(registering(".version 9.01" + rest).find("is made for CUDA 13.0") != std::string::npos);
  CHECK(registering("compressed").find("-no-compress") != std::string::npos);
  CHECK(registering(".version 9.0" + rest + ".version 9.0" + rest).find("one -gencode") != std::string::npos);
  CHECK(registering(".version 9.0" + rest, 7).find("another nvcc") != std::string::npos);
}

TEST_CASE("what the runtime does not know stops the program with file and line") {
  const auto is_placed = [](const std::string& said) {
    INFO(said);
    CHECK(said.find("program_end_test.cpp:") != std::string::npos);
  };
  int value = 0;
  is_placed(stopped_with([&] { cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0); }));
  is_placed(
      stopped_with([] { cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(std::uintptr_t{4096})); }));
  is_placed(stopped_with(
      [] { cudaEventRecord(reinterpret_cast<cudaEvent_t>(std::uintptr_t{4096}), new_stream()); }));
  is_placed(stopped_with([] { cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, new_stream()); }));
}

TEST_CASE("a program fails at its end if it left findings untaken") {
  const auto err = [] {
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
  };
  const Ended left = ended_with(err);
  CHECK_EQ(left.status, 97);
  CHECK(left.said.find("blocking stream") != std::string::npos);
  const Ended taken = ended_with([&] {
    err();
    take_findings();
  });
  CHECK_EQ(taken.status, 0);
}

}  // namespace
}  // namespace zt::emulator
