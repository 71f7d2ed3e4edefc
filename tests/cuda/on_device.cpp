#include "cuda/on_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "device/handles.h"
#include "device/stream.h"

namespace zt::cuda_test {
namespace {

constexpr std::int64_t kGuard = 64;  // bytes on either side
constexpr unsigned char kPattern = 0xc5;

// Host bytes [begin, end) that a call's views cover, and where they are on the device.
struct Range {
  char *begin = nullptr, *end = nullptr;
  char* device = nullptr;
  std::int64_t bytes() const { return end - begin; }
};

Range covered(const View& v) {
  char* const begin = static_cast<char*>(v.data);
  if (v.size() == 0) return {begin, begin + 1};
  return {begin, begin + ((v.rows - 1) * v.stride + v.cols) * size_of(v.dtype)};
}

// Views of one matrix (and a result in place of an input) share a range.
std::vector<Range> merged(std::vector<Range> all) {
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> out;
  for (const Range& r : all) {
    if (!out.empty() && r.begin < out.back().end)
      out.back().end = std::max(out.back().end, r.end);
    else
      out.push_back(r);
  }
  return out;
}

}  // namespace

class OnDevice::Device {
 public:
  explicit Device(Placement placement) : placement_(placement) {}
  ~Device() {
    for (const auto& [bytes, block] : free_) (void)cudaFree(block);
  }

  kernels::CudaKernels& kernels() {
    static kernels::CudaKernels all(1, std::int64_t{1} << 20);
    return all;
  }

  // Points the views (absent ones stay absent) to copies on the device, calls f, and copies back.
  void run(const std::vector<View*>& views, const std::function<void()>& f) {
    cuda::enter_stream(stream_);
    std::vector<Range> ranges;
    for (const View* v : views)
      if (*v) ranges.push_back(covered(*v));
    ranges = merged(ranges);
    std::vector<Block> blocks;
    for (Range& r : ranges) blocks.push_back(upload(r));
    for (View* v : views)
      if (*v) v->data = on_device(ranges, v->data);
    const auto download_all = [&] {
      for (std::size_t i = 0; i < ranges.size(); ++i) download(ranges[i], blocks[i]);
    };
    try {
      f();
    } catch (...) {
      download_all();
      throw;
    }
    download_all();
  }

 private:
  struct Block {
    char* memory = nullptr;
    std::int64_t bytes = 0, offset = 0;
    std::vector<unsigned char> image;  // what was sent
  };

  static void* on_device(const std::vector<Range>& ranges, void* host) {
    for (const Range& r : ranges)
      if (host >= r.begin && host < r.end) return r.device + (static_cast<char*>(host) - r.begin);
    FAIL("a view outside every range");
    return nullptr;
  }

  Block upload(Range& r) {
    Block b;
    const bool as_given = placement_ == Placement::as_given;
    if (as_given) b.offset = kGuard + std::int64_t(reinterpret_cast<std::uintptr_t>(r.begin) % 16);
    b.bytes = b.offset + r.bytes() + (as_given ? kGuard : 0);
    b.memory = allocate(b.bytes);
    b.image.assign(std::size_t(b.bytes), kPattern);
    std::memcpy(b.image.data() + b.offset, r.begin, std::size_t(r.bytes()));
    cuda::check(
        cudaMemcpyAsync(b.memory, b.image.data(), std::size_t(b.bytes), cudaMemcpyHostToDevice, stream_),
        "cannot copy to the GPU");
    r.device = b.memory + b.offset;
    return b;
  }

  void download(const Range& r, Block& b) {
    std::vector<unsigned char> now(static_cast<std::size_t>(b.bytes));
    cuda::check(cudaMemcpyAsync(now.data(), b.memory, now.size(), cudaMemcpyDeviceToHost, stream_),
                "cannot copy from the GPU");
    cuda::check(cudaStreamSynchronize(stream_), "cannot copy from the GPU");
    const auto same = [&](std::int64_t from, std::int64_t to) {
      return std::equal(now.begin() + from, now.begin() + to, b.image.begin() + from);
    };
    CHECK(same(0, b.offset));
    CHECK(same(b.offset + r.bytes(), b.bytes));
    std::memcpy(r.begin, now.data() + b.offset, std::size_t(r.bytes()));
    free_.emplace(b.bytes, b.memory);
  }

  // Memory of exactly this size, so that what lies behind it is no one's.
  char* allocate(std::int64_t bytes) {
    const auto kept = free_.find(bytes);
    if (kept != free_.end()) {
      char* const block = kept->second;
      free_.erase(kept);
      return block;
    }
    void* block = nullptr;
    cuda::check(cudaMalloc(&block, std::size_t(bytes)), "cannot claim memory for a test");
    return static_cast<char*>(block);
  }

  Placement placement_;
  // Stream and kernels are of the whole program: the scratch belongs to the stream, and products remember algorithms.
  static cudaStream_t the_stream() {
    static const cuda::Stream stream = cuda::make_stream();
    return stream.get();
  }
  cudaStream_t stream_ = the_stream();
  std::multimap<std::int64_t, char*> free_;
};

OnDevice::OnDevice(Placement placement) : device_(std::make_unique<Device>(placement)) {}
OnDevice::~OnDevice() = default;

std::int64_t OnDevice::held_bytes() const { return device_->kernels().held_bytes(); }

void OnDevice::linear(const kernels::Linear& host) {
  kernels::Linear a = host;
  device_->run({&a.x_NI, &a.w_OI, &a.b_O, &a.y_NO}, [&] { device_->kernels().linear(a); });
}

void OnDevice::linear_backward(const kernels::LinearGrad& host) {
  kernels::LinearGrad a = host;
  device_->run({&a.x_NI, &a.w_OI, &a.dy_NO, &a.dx_NI, &a.dw_OI, &a.db_O},
               [&] { device_->kernels().linear_backward(a); });
}

void OnDevice::rms_norm(const kernels::RmsNorm& host) {
  kernels::RmsNorm a = host;
  device_->run({&a.x_ND, &a.g_D, &a.y_ND, &a.r_NH}, [&] { device_->kernels().rms_norm(a); });
}

void OnDevice::rms_norm_backward(const kernels::RmsNormGrad& host) {
  kernels::RmsNormGrad a = host;
  device_->run({&a.x_ND, &a.g_D, &a.r_NH, &a.dy_ND, &a.dx_ND, &a.dg_D},
               [&] { device_->kernels().rms_norm_backward(a); });
}

void OnDevice::layer_norm(const kernels::LayerNorm& host) {
  kernels::LayerNorm a = host;
  device_->run({&a.x_ND, &a.g_D, &a.b_D, &a.y_ND, &a.mean_NH, &a.r_NH},
               [&] { device_->kernels().layer_norm(a); });
}

void OnDevice::layer_norm_backward(const kernels::LayerNormGrad& host) {
  kernels::LayerNormGrad a = host;
  device_->run({&a.x_ND, &a.g_D, &a.mean_NH, &a.r_NH, &a.dy_ND, &a.dx_ND, &a.dg_D, &a.db_D},
               [&] { device_->kernels().layer_norm_backward(a); });
}

void OnDevice::rope(const kernels::Rope& host) {
  kernels::Rope a = host;
  device_->run({&a.x_NHd, &a.positions_N, &a.cos_Pd2, &a.sin_Pd2}, [&] { device_->kernels().rope(a); });
}

namespace {

// First token and one past the last of each token's document, which take the place of `bounds` on the device.
struct Documents {
  explicit Documents(std::span<const std::int32_t> bounds) {
    for (std::size_t b = 1; b < bounds.size(); ++b)
      for (std::int32_t i = bounds[b - 1]; i < bounds[b]; ++i) {
        begin.push_back(bounds[b - 1]);
        end.push_back(bounds[b]);
      }
  }
  View begins() { return {begin.data(), 1, std::int64_t(begin.size())}; }
  View ends() { return {end.data(), 1, std::int64_t(end.size())}; }
  std::vector<std::int32_t> begin, end;
};

}  // namespace

void OnDevice::attention(const kernels::Attention& host) {
  kernels::Attention a = host;
  Documents documents(host.bounds);
  a.begin_N = documents.begins(), a.end_N = documents.ends(), a.bounds = {};
  device_->run({&a.q_NHd, &a.k_NKd, &a.v_NKd, &a.o_NHd, &a.lse_HN, &a.begin_N, &a.end_N, &a.shape.row_N},
               [&] { device_->kernels().attention(a); });
}

void OnDevice::attention_backward(const kernels::AttentionGrad& host) {
  kernels::AttentionGrad a = host;
  Documents documents(host.bounds);
  a.begin_N = documents.begins(), a.end_N = documents.ends(), a.bounds = {};
  device_->run({&a.q_NHd, &a.k_NKd, &a.v_NKd, &a.o_NHd, &a.lse_HN, &a.do_NHd, &a.dq_NHd, &a.dk_NKd, &a.dv_NKd,
                &a.delta_HN, &a.begin_N, &a.end_N, &a.shape.row_N},
               [&] { device_->kernels().attention_backward(a); });
}

void OnDevice::attention_decode(const kernels::AttentionDecode& host) {
  kernels::AttentionDecode a = host;
  device_->run({&a.q_1Hd, &a.k_LKd, &a.v_LKd, &a.o_1Hd, &a.shape.row_N},
               [&] { device_->kernels().attention_decode(a); });
}

void OnDevice::gelu(const kernels::Gelu& host) {
  kernels::Gelu a = host;
  device_->run({&a.x_NF, &a.y_NF}, [&] { device_->kernels().gelu(a); });
}

void OnDevice::gelu_backward(const kernels::GeluGrad& host) {
  kernels::GeluGrad a = host;
  device_->run({&a.x_NF, &a.dy_NF, &a.dx_NF}, [&] { device_->kernels().gelu_backward(a); });
}

void OnDevice::swiglu(const kernels::SwiGlu& host) {
  kernels::SwiGlu a = host;
  device_->run({&a.gate_NF, &a.up_NF, &a.y_NF}, [&] { device_->kernels().swiglu(a); });
}

void OnDevice::swiglu_backward(const kernels::SwiGluGrad& host) {
  kernels::SwiGluGrad a = host;
  device_->run({&a.gate_NF, &a.up_NF, &a.dy_NF, &a.dgate_NF, &a.dup_NF},
               [&] { device_->kernels().swiglu_backward(a); });
}

void OnDevice::embedding(const kernels::Embedding& host) {
  kernels::Embedding a = host;
  device_->run({&a.tokens_N, &a.positions_N, &a.wte_VD, &a.wpe_PD, &a.y_ND},
               [&] { device_->kernels().embedding(a); });
}

void OnDevice::embedding_backward(const kernels::EmbeddingGrad& host) {
  kernels::EmbeddingGrad a = host;
  device_->run({&a.tokens_N, &a.positions_N, &a.dy_ND, &a.dwte_VD, &a.dwpe_PD},
               [&] { device_->kernels().embedding_backward(a); });
}

void OnDevice::dropout(const kernels::Dropout& host) {
  kernels::Dropout a = host;
  device_->run({&a.x_ND, &a.y_ND, &a.row_N}, [&] { device_->kernels().dropout(a); });
}

namespace {

// A result on the host as a view. No format has 8 bytes, so it is two whole numbers.
View as_view(double* result) {
  return result == nullptr ? View() : View(static_cast<void*>(result), Dtype::i32, 1, 2);
}

}  // namespace

void OnDevice::cross_entropy_head(const kernels::CrossEntropyHead& host) {
  kernels::CrossEntropyHead a = host;
  alignas(8) double loss = host.loss_sum == nullptr ? 0 : *host.loss_sum;
  View sum = host.loss_sum == nullptr ? View() : as_view(&loss);
  device_->run(
      {&a.x_ND, &a.w_VD, &a.target_N, &a.dx_ND, &a.dw_VD, &a.loss_N, &a.logits_CV, &a.dlogits_CV, &sum}, [&] {
        a.loss_sum = static_cast<double*>(sum.data);
        device_->kernels().cross_entropy_head(a);
      });
  if (host.loss_sum != nullptr) *host.loss_sum = loss;
}

void OnDevice::adamw(const kernels::AdamW& host) {
  kernels::AdamW a = host;
  device_->run({&a.p_n, &a.m_n, &a.v_n, &a.g_n, &a.w_n}, [&] { device_->kernels().adamw(a); });
}

void OnDevice::sum_squares(const kernels::SumSquares& host) {
  kernels::SumSquares a = host;
  View sum = as_view(host.result);
  device_->run({&a.x_n, &sum}, [&] {
    a.result = static_cast<double*>(sum.data);
    device_->kernels().sum_squares(a);
  });
}

void OnDevice::cast(const kernels::Cast& host) {
  kernels::Cast a = host;
  device_->run({&a.x, &a.y}, [&] { device_->kernels().cast(a); });
}

void OnDevice::add(const kernels::Add& host) {
  kernels::Add a = host;
  device_->run({&a.a, &a.b, &a.y}, [&] { device_->kernels().add(a); });
}

}  // namespace zt::cuda_test
