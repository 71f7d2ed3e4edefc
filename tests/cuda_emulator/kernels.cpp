#include "cuda_emulator/kernels.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "cuda_emulator/emulator.h"
#include "cuda_emulator/findings.h"

namespace zt::emulator {
namespace {

// CUDA 13.0's nvcc writes this version of PTX; others bring instructions and registration that were not looked at.
constexpr std::string_view kVersion = ".version 9.0";

constexpr std::uint32_t kWrapperMagic = 0x466243b1;

struct Wrapper {
  std::uint32_t magic, version;
  const char* data;
  const void* more;
};
struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

std::string ptx_text(std::string_view data) {
  const std::size_t begin = data.find(".version ");
  if (begin == std::string_view::npos)
    stop("an object holds no readable PTX: build it with -no-compress and code=compute_90a", "");
  const std::size_t end = data.find('\0', begin);
  if (data.find("\n.version ", begin) != std::string_view::npos)
    stop("an object holds the PTX of several architectures: build it with one -gencode", "");
  std::string text(data.substr(begin, end - begin));
  if (!starts_with(text, kVersion) || std::isdigit(static_cast<unsigned char>(text[kVersion.size()])) != 0)
    stop(cat("the emulated GPU is made for CUDA 13.0, whose nvcc writes PTX 9.0; this object holds \"",
             text.substr(0, text.find('\n')), "\""),
         "");
  return text;
}

struct Registry {
  std::mutex mutex;
  std::map<const void*, Kernel> kernels;
  std::map<std::string, Counters> counters;
};

Registry& registry() {
  static auto* only = new Registry;
  return *only;
}

std::string demangle(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

// Without return type, namespaces and parameters, with template arguments.
std::string short_name(std::string name) {
  constexpr std::string_view kHidden = "(anonymous namespace)::";
  for (std::size_t at = name.find(kHidden); at != std::string::npos; at = name.find(kHidden))
    name.erase(at, kHidden.size());
  int depth = 0;
  std::size_t begin = 0, end = name.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == '(') {
      end = i;
      break;
    }
    if (name[i] == ' ' || name[i] == ':') begin = i + 1;
  }
  return name.substr(begin, end - begin);
}

}  // namespace

std::string bare_name(const std::string& demangled) {
  const std::string name = short_name(demangled);
  return name.substr(0, name.find('<'));
}

FatBinary::FatBinary(const void* wrapper) {
  const auto* w = static_cast<const Wrapper*>(wrapper);
  if (w->magic != kWrapperMagic) stop("an object was made by another nvcc than that of CUDA 13.0", "");
  const auto* h = reinterpret_cast<const Header*>(w->data);
  text_ = ptx_text({w->data, h->header_bytes + h->bytes});
}

ptx::Module& FatBinary::on(Device& device) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(device.index());
  if (modules_.size() <= index) modules_.resize(index + 1);
  if (!modules_[index]) modules_[index] = std::make_unique<ptx::Module>(text_, device.memory());
  return *modules_[index];
}

void add_kernel(const void* stub, FatBinary* binary, const std::string& mangled) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.kernels[stub] = {binary, mangled, short_name(demangle(mangled))};
}

Kernel& kernel_of(const void* stub) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.kernels.find(stub);
  if (at == r.kernels.end()) stop("a launch of a kernel that no object registered", CallStack::here().text());
  return at->second;
}

void count(const std::string& kernel, const ptx::Counters& more) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  Counters& c = r.counters[bare_name(kernel)];
  ++c.launches;
  c.warp_instructions += more.warp_instructions;
  c.mma += more.mma;
  c.bank_extra += more.bank_extra;
  c.sectors += more.sectors;
  c.sectors_least += more.sectors_least;
}

Counters counters(const std::string& kernel) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.counters.find(kernel);
  return at == r.counters.end() ? Counters{} : at->second;
}

void reset_counters() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.counters.clear();
}

}  // namespace zt::emulator
