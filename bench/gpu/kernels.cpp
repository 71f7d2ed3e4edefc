// Each kernel beside its floor: the bytes it must read and write at the rate of copies, or its products at the rate of
// the matrix ceiling, whichever takes longer. Shapes are those of an 8B-class Llama in bf16, far beyond the L2 cache.
#include <algorithm>

#include "gpu.h"

namespace zt::bench {
namespace {

struct Shapes {
  explicit Shapes(const Gpu& gpu)
      : N(gpu.size(16384, 64)),
        D(gpu.size(4096, 128)),
        F(gpu.size(14336, 192)),
        V(gpu.size(128256, 160)),
        C(gpu.size(1024, 32)),
        heads(gpu.tiny() ? 2 : 32),
        n(gpu.size(std::int64_t{1} << 28, 1000)) {}
  std::int64_t N, D, F, V, C;  // tokens, width, hidden width, vocabulary, tokens of a chunk of the head
  int heads;
  std::int64_t n;  // elements of an optimizer's slice
};

// Prints one line a kernel.
class Table {
 public:
  Table(Gpu& gpu, const Ceilings& ceilings) : gpu_(gpu), ceilings_(ceilings) {
    fmt::print("\n{:<28}{:>10}{:>9}{:>12}{:>12}{:>10}{:>10}\n", "kernel", "ms", "spread", "floor ms", "GB/s",
               "TFLOP/s", "of floor");
  }

  // `bytes` and `flops` of one call: what the inputs and outputs hold, and what the products take.
  void row(const char* name, double bytes, double flops, const std::function<void()>& work) {
    const Timing time = gpu_.time(work);
    const double seconds = time.seconds;
    const double floor = std::max(bytes / ceilings_.bytes, flops / ceilings_.flops);
    fmt::print("{:<28}{:>10.4f}{:>7.1f} %{:>12.4f}{:>12.0f}{:>10.1f}{:>8.1f} %\n", name, 1e3 * seconds,
               100 * time.spread, 1e3 * floor, bytes / seconds / 1e9, tera(flops / seconds),
               100 * floor / seconds);
  }
  void row(const char* name, std::initializer_list<View> read_or_written, const std::function<void()>& work) {
    row(name, bytes_of(read_or_written), 0, work);
  }
  static double bytes_of(std::initializer_list<View> views) {
    double bytes = 0;
    for (const View& v : views) bytes += double(v.size()) * size_of(v.dtype);
    return bytes;
  }

 private:
  Gpu& gpu_;
  Ceilings ceilings_;
};

void norms(Gpu& gpu, Table& table, const Shapes& s) {
  kernels::CudaKernels& k = gpu.kernels();
  const View x = gpu.normal(Dtype::bf16, s.N, s.D), y = gpu.zeros(Dtype::bf16, s.N, s.D),
             dy = gpu.normal(Dtype::bf16, s.N, s.D), dx = gpu.zeros(Dtype::bf16, s.N, s.D),
             g = gpu.normal(Dtype::bf16, 1, s.D), b = gpu.normal(Dtype::bf16, 1, s.D),
             mean = gpu.zeros(Dtype::f32, s.N, 1), r = gpu.zeros(Dtype::f32, s.N, 1),
             dg = gpu.zeros(Dtype::f32, 1, s.D), db = gpu.zeros(Dtype::f32, 1, s.D);
  table.row("rms_norm", {x, y, g, r}, [&] { k.rms_norm({x, g, y, r}); });
  table.row("rms_norm_backward", {x, dy, dx, g, r, dg, dg},
            [&] { k.rms_norm_backward({x, g, r, dy, dx, dg}); });
  table.row("layer_norm", {x, y, g, b, mean, r}, [&] { k.layer_norm({x, g, b, y, mean, r}); });
  table.row("layer_norm_backward", {x, dy, dx, g, mean, r, dg, dg, db, db},
            [&] { k.layer_norm_backward({x, g, mean, r, dy, dx, dg, db}); });
  gpu.clear();
}

void activations(Gpu& gpu, Table& table, const Shapes& s) {
  kernels::CudaKernels& k = gpu.kernels();
  const View gate = gpu.normal(Dtype::bf16, s.N, s.F), up = gpu.normal(Dtype::bf16, s.N, s.F),
             y = gpu.normal(Dtype::bf16, s.N, s.F), dgate = gpu.zeros(Dtype::bf16, s.N, s.F),
             dup = gpu.zeros(Dtype::bf16, s.N, s.F);
  table.row("swiglu", {gate, up, y}, [&] { k.swiglu({gate, up, y}); });
  table.row("swiglu_backward", {gate, up, y, dgate, dup},
            [&] { k.swiglu_backward({gate, up, y, dgate, dup}); });
  table.row("gelu", {gate, y}, [&] { k.gelu({gate, y}); });
  table.row("gelu_backward", {gate, y, dgate}, [&] { k.gelu_backward({gate, y, dgate}); });
  gpu.clear();
}

void rows_of_tokens(Gpu& gpu, Table& table, const Shapes& s) {
  kernels::CudaKernels& k = gpu.kernels();
  const int head_size = int(s.D / s.heads);
  const View x = gpu.normal(Dtype::bf16, s.N, s.D), y = gpu.zeros(Dtype::bf16, s.N, s.D),
             wte = gpu.normal(Dtype::bf16, s.V, s.D), dwte = gpu.zeros(Dtype::f32, s.V, s.D),
             angles = gpu.normal(Dtype::f32, s.N, head_size / 2);
  const View positions = gpu.whole_numbers(s.N, [](std::int64_t i) { return std::int32_t(i); });
  // Nearly all different, so that each row is read once and each gradient has a row of its own.
  const View tokens = gpu.whole_numbers(s.N, [&](std::int64_t i) { return std::int32_t(i * 7919 % s.V); });
  table.row("rope", {x, x, angles, angles, positions},
            [&] { k.rope({x, positions, angles, angles, head_size}); });
  table.row("embedding", {y, y, tokens}, [&] { k.embedding({tokens, {}, wte, {}, y}); });
  // Reads dy; reads and writes as many rows of fp32.
  table.row("embedding_backward", {x, y, y, y, y, tokens},
            [&] { k.embedding_backward({tokens, {}, x, dwte, {}}); });
  table.row("dropout", {x, y},
            [&] { k.dropout({x, y, 0.1f, {.seed = 5, .purpose = Purpose::dropout, .a = 2, .b = 9}}); });
  gpu.clear();
}

void optimizer(Gpu& gpu, Table& table, const Shapes& s) {
  kernels::CudaKernels& k = gpu.kernels();
  const View p = gpu.normal(Dtype::f32, 1, s.n), m = gpu.zeros(Dtype::f32, 1, s.n),
             v = gpu.zeros(Dtype::f32, 1, s.n), g = gpu.normal(Dtype::f32, 1, s.n),
             w = gpu.zeros(Dtype::bf16, 1, s.n), a = gpu.normal(Dtype::bf16, 1, s.n),
             sum = gpu.zeros(Dtype::f32, 1, 2);
  table.row("adamw", {p, p, m, m, v, v, g, w}, [&] { k.adamw({p, m, v, g, w, 1e-4f}); });
  table.row("sum_squares, float32", {g}, [&] { k.sum_squares({g, static_cast<double*>(sum.data)}); });
  table.row("sum_squares, bfloat16", {a}, [&] { k.sum_squares({a, static_cast<double*>(sum.data)}); });
  table.row("cast, float32 to bfloat16", {g, w}, [&] { k.cast({g, w}); });
  table.row("add, bfloat16", {a, w, w}, [&] { k.add({w, a, w}); });
  gpu.clear();
}

// A decoded token reads every key and value before it.
void decode(Gpu& gpu, Table& table, const Shapes& s) {
  const int kv_heads = std::max(1, s.heads / 4), head_size = int(s.D / s.heads);
  const std::int64_t length = gpu.size(131072, 64);
  const View q = gpu.normal(Dtype::bf16, 1, s.D), o = gpu.zeros(Dtype::bf16, 1, s.D),
             keys = gpu.normal(Dtype::bf16, length, kv_heads * head_size),
             values = gpu.normal(Dtype::bf16, length, kv_heads * head_size);
  const kernels::AttentionShape shape{s.heads, kv_heads, head_size, 0.1f};
  table.row("attention_decode", {q, o, keys, values},
            [&] { gpu.kernels().attention_decode({q, keys, values, o, length, shape}); });
  gpu.clear();
}

void products(Gpu& gpu, Table& table, const Shapes& s) {
  kernels::CudaKernels& k = gpu.kernels();
  const std::int64_t shapes[][2] = {{s.D, s.D}, {s.D, s.F}, {s.F, s.D}};
  for (const auto& [I, O] : shapes) {
    const View x = gpu.normal(Dtype::bf16, s.N, I), w = gpu.normal(Dtype::bf16, O, I),
               y = gpu.normal(Dtype::bf16, s.N, O), dx = gpu.zeros(Dtype::bf16, s.N, I),
               dw = gpu.zeros(Dtype::f32, O, I), bias = gpu.normal(Dtype::bf16, 1, O);
    const double flops = 2.0 * double(s.N) * double(I) * double(O);
    const std::string shape = fmt::format(" {} to {}", I, O);
    table.row(("linear" + shape).c_str(), Table::bytes_of({x, w, y}), flops,
              [&] { k.linear({x, w, {}, y}); });
    table.row(("linear, bias" + shape).c_str(), Table::bytes_of({x, w, y}), flops,
              [&] { k.linear({x, w, bias, y}); });
    table.row(("linear dx" + shape).c_str(), Table::bytes_of({w, y, dx}), flops,
              [&] { k.linear_backward({x, w, y, dx, {}, {}}); });
    table.row(("linear dw" + shape).c_str(), Table::bytes_of({x, y, dw, dw}), flops,
              [&] { k.linear_backward({x, w, y, {}, dw, {}}); });
    gpu.clear();
  }
}

void head(Gpu& gpu, Table& table, const Shapes& s) {
  const View x = gpu.normal(Dtype::bf16, s.N, s.D), w = gpu.normal(Dtype::bf16, s.V, s.D),
             dx = gpu.zeros(Dtype::bf16, s.N, s.D), dw = gpu.zeros(Dtype::f32, s.V, s.D),
             logits = gpu.zeros(Dtype::f32, s.C, s.V), dlogits = gpu.zeros(Dtype::bf16, s.C, s.V),
             sum = gpu.zeros(Dtype::f32, 1, 2);
  const View targets = gpu.whole_numbers(s.N, [&](std::int64_t i) { return std::int32_t(i * 7919 % s.V); });
  const kernels::CrossEntropyHead call{
      x, w, targets, 1e-4f, dx, dw, {}, static_cast<double*>(sum.data), logits, dlogits};
  table.row("cross_entropy_head", Table::bytes_of({x, w, dx, dw, dw}),
            6.0 * double(s.N) * double(s.D) * double(s.V), [&] { gpu.kernels().cross_entropy_head(call); });
  gpu.clear();
}

}  // namespace

void measure_kernels(Gpu& gpu, const Ceilings& ceilings) {
  const Shapes s(gpu);
  fmt::print("\n{} tokens, width {}, hidden {}, vocabulary {}, {} heads, {} optimizer elements\n", s.N, s.D,
             s.F, s.V, s.heads, s.n);
  fmt::print("floor: the larger of bytes / {:.0f} GB/s and FLOPs / {:.1f} TFLOP/s\n", ceilings.bytes / 1e9,
             tera(ceilings.flops));
  Table table(gpu, ceilings);
  norms(gpu, table, s);
  activations(gpu, table, s);
  rows_of_tokens(gpu, table, s);
  optimizer(gpu, table, s);
  decode(gpu, table, s);
  products(gpu, table, s);
  head(gpu, table, s);
}

}  // namespace zt::bench
