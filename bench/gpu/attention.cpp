// Flash attention by length: TFLOP/s forward and backward, as a share of the matrix ceiling.
#include <cmath>

#include "gpu.h"

namespace zt::bench {
namespace {

struct Heads {
  int heads, kv_heads, head_size;
};

// Two products of T x T x d a head forward, five backward, of which a causal mask leaves half.
double forward_flops(const Heads& h, double tokens, double length) {
  return 4.0 * tokens * length * h.heads * h.head_size / 2;
}

void measure(Gpu& gpu, const Ceilings& ceilings, const Heads& h, std::int64_t length, std::int64_t tokens) {
  const auto matrix = [&](int heads) {
    return gpu.normal(Dtype::bf16, tokens, std::int64_t(heads) * h.head_size);
  };
  const View q = matrix(h.heads), k = matrix(h.kv_heads), v = matrix(h.kv_heads), o = matrix(h.heads),
             grad = matrix(h.heads), dq = matrix(h.heads), dk = matrix(h.kv_heads), dv = matrix(h.kv_heads);
  const View lse = gpu.zeros(Dtype::f32, h.heads, tokens), delta = gpu.zeros(Dtype::f32, h.heads, tokens);
  const View begin =
      gpu.whole_numbers(tokens, [&](std::int64_t i) { return std::int32_t(i / length * length); });
  const View end =
      gpu.whole_numbers(tokens, [&](std::int64_t i) { return std::int32_t((i / length + 1) * length); });
  const kernels::AttentionShape shape{h.heads, h.kv_heads, h.head_size, 1 / std::sqrt(float(h.head_size))};
  const Timing forward = gpu.time([&] { gpu.kernels().attention({q, k, v, o, lse, {}, shape, begin, end}); });
  const Timing backward = gpu.time([&] {
    gpu.kernels().attention_backward({q, k, v, o, lse, grad, dq, dk, dv, delta, {}, shape, begin, end});
  });
  gpu.clear();
  const double flops = forward_flops(h, double(tokens), double(length));
  const auto columns = [&](const Timing& t, double of_call) {
    const double rate = of_call / t.seconds;
    fmt::print("{:>10.3f}{:>7.1f} %{:>10.1f}{:>7.1f} %", 1e3 * t.seconds, 100 * t.spread, tera(rate),
               100 * rate / ceilings.flops);
  };
  fmt::print("{:>7}", length);
  columns(forward, flops);
  columns(backward, 2.5 * flops);
  fmt::print("\n");
}

}  // namespace

void measure_attention(Gpu& gpu, const Ceilings& ceilings) {
  const std::int64_t longest = gpu.size(32768, 128), shortest = gpu.size(1024, 64);
  for (const Heads& h : {Heads{32, 8, 128}, Heads{32, 8, 64}, Heads{12, 12, 64}}) {
    const Heads used = gpu.tiny() ? Heads{2, 1, h.head_size} : h;
    fmt::print(
        "\nattention, bf16, causal, {} heads, {} of keys and values, head size {}, {} tokens in rows of "
        "`length`\n"
        "FLOPs: forward 4 tokens length heads head_size / 2, backward 2.5 times that; share of {:.1f} "
        "TFLOP/s\n"
        "{:>7}{:>10}{:>9}{:>10}{:>9}{:>10}{:>9}{:>10}{:>9}\n",
        used.heads, used.kv_heads, used.head_size, longest, tera(ceilings.flops), "length", "fwd ms",
        "spread", "TFLOP/s", "share", "bwd ms", "spread", "TFLOP/s", "share");
    for (std::int64_t length = shortest; length <= longest; length *= 2)
      measure(gpu, ceilings, used, length, longest);
  }
}

}  // namespace zt::bench
