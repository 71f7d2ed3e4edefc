#include "measure/passes.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "device/arena.h"
#include "device/device.h"
#include "measure/rounds.h"

namespace zt::measure {
namespace {

constexpr std::int64_t kSmall = 1 << 14;  // elements: 64 KiB of fp32
constexpr std::int64_t kPool = std::int64_t{128} << 20;

using plan::Kernel;

// Several copies of a call's buffers, used in turn: a step streams through as many layers.
class Pool {
 public:
  Pool(std::int64_t bytes_a_call, std::int64_t copies_at_most)
      : each_((bytes_a_call + 63) / 64 * 64),
        copies_(std::clamp<std::int64_t>(kPool / each_, 1, copies_at_most)),
        memory_(each_ * copies_, "measuring") {}
  // Where the next call's buffers lie.
  std::byte* next() {
    turn_ = (turn_ + 1) % copies_;
    return memory_.at(turn_ * each_);
  }

 private:
  std::int64_t each_, copies_, turn_ = 0;
  device::Arena memory_;
};

class Passes {
 public:
  Passes(comm::Communicator& ranks, Dtype dtype, bool quick, std::map<Size, double>& seconds)
      : ranks_(ranks),
        dtype_(dtype),
        e_(size_of(dtype)),
        pace_(quick ? Pace{0.005, 3} : Pace{}),
        kernels_(kernels::make_cpu_kernels(dtype)),
        seconds_(seconds) {}

  void clear(std::int64_t n) {
    Pool pool(n * 4, 8);
    note({Kernel::clear, 1, n, 0}, time([&] { std::memset(pool.next(), 0, std::size_t(n) * 4); }));
  }
  void add(std::int64_t n) {
    Pool pool(n * 8, 8);
    note({Kernel::add, 1, n, 0}, time([&] {
           auto* const sum = reinterpret_cast<float*>(pool.next());
           device::host().add(Dtype::f32, sum, sum + n, n);
         }));
  }
  void dropout(std::int64_t rows, std::int64_t cols) {
    Pool pool(rows * cols * e_, 8);
    note({Kernel::dropout, rows, cols, 0}, time([&] {
           const View x(pool.next(), dtype_, rows, cols);
           kernels_->dropout({x, x, 0.1f, {}});
         }));
  }
  // What a bias adds to a product that is small beside it.
  void bias(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t inner = 64;
    const double with = product(rows, cols, inner, true), without = product(rows, cols, inner, false);
    note({Kernel::bias, rows, cols, 0}, std::max(with - without, with / 20));
  }
  // A head of narrow hidden states, without its products.
  void cross_entropy(std::int64_t rows, std::int64_t vocab);

 private:
  double time(const std::function<void()>& call) const { return measure::seconds_of(ranks_, pace_, call); }
  void note(const Size& size, double seconds) { seconds_[size] = seconds; }
  double product(std::int64_t rows, std::int64_t cols, std::int64_t inner, bool bias) const;
  double head_products(std::int64_t rows, std::int64_t vocab, std::int64_t width) const;

  comm::Communicator& ranks_;
  Dtype dtype_;
  std::int64_t e_;
  Pace pace_;
  std::unique_ptr<kernels::Kernels> kernels_;
  std::map<Size, double>& seconds_;
};

double Passes::product(std::int64_t rows, std::int64_t cols, std::int64_t inner, bool bias) const {
  Pool pool((rows * inner + inner * cols + cols + rows * cols) * e_ + 256, 8);
  return time([&] {
    std::byte* at = pool.next();
    const auto matrix = [&](std::int64_t r, std::int64_t c) {
      const View view(at, dtype_, r, c);
      at += (r * c * e_ + 63) / 64 * 64;
      return view;
    };
    const View x = matrix(rows, inner), w = matrix(cols, inner), b = matrix(1, cols), y = matrix(rows, cols);
    kernels_->linear({x, w, bias ? b : View(), y});
  });
}

void Passes::cross_entropy(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t width = 16;
  const device::Arena memory(rows * vocab * 8 + (rows + vocab) * width * 12 + rows * 4 + 512, "measuring");
  std::byte* at = memory.at(0);
  const auto matrix = [&](Dtype dtype, std::int64_t r, std::int64_t c) {
    const View view(at, dtype, r, c);
    at += (r * c * size_of(dtype) + 63) / 64 * 64;
    return view;
  };
  kernels::CrossEntropyHead head;
  double loss = 0;
  head.x_ND = matrix(dtype_, rows, width);
  head.w_VD = matrix(dtype_, vocab, width);
  head.target_N = matrix(Dtype::i32, 1, rows);
  head.dx_ND = matrix(dtype_, rows, width);
  head.dw_VD = matrix(Dtype::f32, vocab, width);
  head.loss_sum = &loss;
  head.logits_CV = matrix(Dtype::f32, rows, vocab);
  if (dtype_ != Dtype::f32) head.dlogits_CV = matrix(dtype_, rows, vocab);
  const View dlogits = head.dlogits_CV ? head.dlogits_CV : head.logits_CV;
  const double whole = time([&] { kernels_->cross_entropy_head(head); });
  const double products = time([&] {
    kernels_->linear({head.x_ND, head.w_VD, {}, head.logits_CV});
    kernels_->linear_backward({head.x_ND, head.w_VD, dlogits, head.dx_ND, head.dw_VD, {}});
  });
  note({Kernel::cross_entropy, rows, vocab, 0}, std::max(whole - products, whole / 20));
}

}  // namespace

void time_passes(comm::Communicator& ranks, Dtype dtype, bool quick, std::map<Size, double>& seconds) {
  Passes passes(ranks, dtype, quick, seconds);
  const std::int64_t large = quick ? 1 << 18 : 1 << 23;
  for (const std::int64_t n : {kSmall, std::int64_t{1} << 18, large}) {
    passes.clear(n);
    passes.add(n);
  }
  passes.dropout(64, 64);
  passes.dropout(256, 768);
  passes.bias(64, 64);
  passes.bias(256, 768);
  passes.cross_entropy(256, 256);
  if (quick) return;
  passes.dropout(1024, 3072);
  passes.bias(1024, 3072);
  passes.cross_entropy(512, 4096);
  passes.cross_entropy(320, 50257);
}

}  // namespace zt::measure
