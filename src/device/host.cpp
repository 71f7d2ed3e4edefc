#include <cstring>

#include "base/error.h"
#include "device/device.h"
#include "tensor/convert.h"

namespace zt::device {
namespace {

template <typename T>
void add_typed(T* sum, const float* more, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = rounded_to<T>(float(sum[i]) + more[i]);
}

class Host final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  Arena claim(std::int64_t bytes, const std::string& purpose) override { return Arena(bytes, purpose); }
  std::int64_t available_bytes() const override { return device::available_bytes(); }
  bool is_host() const override { return true; }
  Queues* queues() override { return nullptr; }

  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill(void* at, std::uint8_t byte, std::int64_t bytes) override {
    std::memset(at, byte, static_cast<std::size_t>(bytes));
  }
  void add(Dtype dtype, void* sum, const float* more, std::int64_t count) override {
    if (dtype == Dtype::f32) return add_typed(static_cast<float*>(sum), more, count);
    if (dtype == Dtype::bf16) return add_typed(static_cast<bf16*>(sum), more, count);
    throw Error(Blame::bug, "gradients are float32 or bfloat16");
  }
  void to_device(void* to, const void* from, std::int64_t bytes) override { copy(to, from, bytes); }
  void to_host(void* to, const void* from, std::int64_t bytes) override { copy(to, from, bytes); }
};

}  // namespace

Device& host() {
  static Host device;
  return device;
}

}  // namespace zt::device
