#include "cuda_emulator/source_line.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include "base/text.h"

namespace zt::emulator {
namespace {

// addr2line prints the innermost function first, one line each; "??" where it knows nothing.
std::string ask_addr2line(const char* program, std::uintptr_t offset) {
  const std::string command = fmt::format("addr2line -s -i -e '{}' {:#x} 2>/dev/null", program, offset);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 512> buffer{};
  std::string all;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    std::string one(buffer.data());
    one.resize(one.find_first_of(" \n"));
    if (one.rfind("??", 0) == 0) continue;
    all += (all.empty() ? "" : " from ") + one;
  }
  pclose(pipe);
  return all;
}

const void* module_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

std::string look_up(const void* return_address) {
  Dl_info info;
  if (dladdr(return_address, &info) == 0 || info.dli_fname == nullptr)
    return fmt::format("{}", return_address);
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(return_address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase) - 1;
  const std::string line = ask_addr2line(info.dli_fname, offset);
  return line.empty() ? fmt::format("{}+{:#x}", info.dli_fname, offset) : line;
}

}  // namespace

std::string source_line(const void* return_address) {
  static auto* known = new std::map<const void*, std::string>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto [at, is_new] = known->try_emplace(return_address);
  if (is_new) at->second = look_up(return_address);
  return at->second;
}

CallStack CallStack::here() {
  CallStack stack;
  stack.depth_ = backtrace(stack.frames_.data(), static_cast<int>(stack.frames_.size()));
  return stack;
}

std::string CallStack::text(int frames) const {
  const void* emulator = module_of(reinterpret_cast<const void*>(&source_line));
  std::string text;
  for (int i = 0; i < depth_ && frames > 0; ++i) {
    if (module_of(frames_[i]) == emulator) continue;
    text += (text.empty() ? "" : " from ") + source_line(frames_[i]);
    --frames;
  }
  return text;
}

}  // namespace zt::emulator
