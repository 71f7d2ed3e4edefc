// The parity table on the CUDA backend, and what the table's sizes don't reach there.
#include <algorithm>
#include <cstring>
#include <regex>
#include <set>

#include "cuda/settings.h"
#include "device/handles.h"
#include "device/stream.h"
#include "parity/parity.h"
#include "reference/cross_entropy.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "support/paths.h"

namespace zt::cuda_test {
namespace {

using namespace parity;

struct Row {
  const char* name;  // the method of Kernels
  void (*check)(kernels::Kernels&);
  // Nearly all of it is products, whose stand-in knows no orders: two settings, one for each placement, are enough.
  bool products = false;
};

constexpr Row kTable[] = {
    {"linear", check_linear, true},
    {"linear_backward", check_linear_backward, true},
    {"rms_norm", check_rms_norm},
    {"rms_norm_backward", check_rms_norm_backward},
    {"layer_norm", check_layer_norm},
    {"layer_norm_backward", check_layer_norm_backward},
    {"rope", check_rope},
    {"gelu", check_gelu},
    {"gelu_backward", check_gelu_backward},
    {"swiglu", check_swiglu},
    {"swiglu_backward", check_swiglu_backward},
    {"embedding", check_embedding},
    {"embedding_backward", check_embedding_backward},
    {"dropout", check_dropout},
    {"cross_entropy_head", check_cross_entropy_head},
    {"adamw", check_adamw},
    {"sum_squares", check_sum_squares},
    {"cast", check_cast},
    {"add", check_add},
};

TEST_CASE("cuda kernels: every row of the parity table holds, in whatever order blocks and warps run") {
  for (const Row& row : kTable)
    under_settings(std::span(kSettings).first(row.products ? 2 : std::size(kSettings)), row.name,
                   [&](const Setting& setting) {
                     OnDevice kernels(setting.placement);
                     row.check(kernels);
                   });
}

TEST_CASE(
    "cuda kernels: the table holds every method of Kernels but attention's, which have a file of their own") {
  const std::string header = test::read_file(test::source_dir() / "src/kernels/kernels.h");
  const std::regex method("virtual void ([a-z_0-9]+)\\(");
  std::multiset<std::string> methods, rows{"attention", "attention_backward", "attention_decode"};
  for (std::sregex_iterator it(header.begin(), header.end(), method), end; it != end; ++it)
    methods.insert((*it)[1]);
  for (const Row& row : kTable) rows.insert(row.name);
  CHECK(methods.size() > 0);
  CHECK(methods == rows);
}

// Widths for one and several chunks a thread, for teams that are warps and blocks, and with idle threads at the end.
struct NormShape {
  Dtype dtype;
  std::int64_t N, H, D, gap;
};

std::vector<NormShape> norm_shapes(Placement placement) {
  std::vector<NormShape> all;
  for (const Dtype dtype : formats()) {
    for (const std::int64_t D : {8, 72, 512, 520, 768, 2048, 2056, 4104}) all.push_back({dtype, 5, 1, D, 16});
    all.push_back({dtype, 2, 1, placement == Placement::aligned ? 16384 : 8192, 0});
    all.push_back({dtype, 2, 1, 2051, 1});
    all.push_back({dtype, 20, 5, 128, 8});
  }
  return all;
}

void check_norm(kernels::Kernels& k, const NormShape& s, bool centred) {
  INFO(std::string(name(s.dtype)), " N ", s.N, " H ", s.H, " D ", s.D, " centred ", centred);
  Guarded x(s.dtype, s.N, s.H * s.D, s.gap), g(s.dtype, 1, s.D), b(s.dtype, 1, s.D),
      y(s.dtype, s.N, s.H * s.D, s.gap), dy(s.dtype, s.N, s.H * s.D, s.gap),
      dx(s.dtype, s.N, s.H * s.D, s.gap), mean(Dtype::f32, s.N, s.H), r(Dtype::f32, s.N, s.H),
      dg(Dtype::f32, 1, s.D), db(Dtype::f32, 1, s.D);
  x.fill_normal(1, 2.0, 0.5);
  g.fill_normal(2, 0.5, 1.0);
  b.fill_normal(3, 0.5);
  dy.fill_normal(4);
  dg.fill(0);
  db.fill(0);
  const reference::Norm exact =
      reference::norm(x.values(), g.values(), centred ? b.values() : Vec(), 1e-5, centred);
  const double size =
      (largest(x.values()) * largest(exact.r) + 1) * largest(g.values()) + largest(b.values());
  if (centred)
    k.layer_norm({x, g, b, y, mean, r, 1e-5f});
  else
    k.rms_norm({x, g, y, r, 1e-5f});
  check_close("y", y, exact.y, {s.dtype, sum_steps(s.D) + 4, size, "a sum of D terms"});
  check_close("r", r, exact.r, {Dtype::f32, sum_steps(s.D) + 4, 0, "a sum of D squares"});
  mean.assign(exact.mean);
  r.assign(exact.r);
  const auto grad =
      reference::norm_backward(x.values(), g.values(), mean.values(), r.values(), dy.values(), centred);
  if (centred)
    k.layer_norm_backward({x, g, mean, r, dy, dx, dg, db});
  else
    k.rms_norm_backward({x, g, r, dy, dx, dg});
  const double term = largest(dy.values()) * largest(x.values()) * largest(r.values()) + 1;
  check_close("dx", dx, grad.dx,
              {s.dtype, sum_steps(s.D) + 8, largest(r.values()) * largest(g.values()) * term * term,
               "two means of D terms, then five operations"});
  const Bound sums{Dtype::f32, 8 + double(s.N * s.H), term * double(s.N * s.H), "a sum over N H terms"};
  check_close("dg", dg, grad.dg, sums);
  if (centred) check_close("db", db, grad.db, sums);
}

TEST_CASE("cuda norms: rows from 8 to 16,384 features, strided and not, agree with the fp64 reference") {
  under_each_setting("norms", [](const Setting& setting) {
    OnDevice k(setting.placement);
    for (const NormShape& shape : norm_shapes(setting.placement))
      for (const bool centred : {false, true}) check_norm(k, shape, centred);
  });
}

TEST_CASE("cuda norms: rows wider than a block can hold are refused with both numbers") {
  OnDevice k(Placement::aligned);
  Guarded x(Dtype::f32, 1, 16385), g(Dtype::f32, 1, 16385), r(Dtype::f32, 1, 1);
  CHECK_THROWS_WITH_AS(k.rms_norm({x, g, x, r}),
                       "rms_norm: norms take at most 16384 features, 8192 where rows don't start on 16-byte "
                       "boundaries, not 16385",
                       Error);
}

TEST_CASE("cuda elementwise: strided rows of whole 16-byte chunks give what contiguous ones give") {
  under_each_setting("strided", [](const Setting& setting) {
    OnDevice k(setting.placement);
    for (const Dtype dtype : formats()) {
      for (const std::int64_t cols : {8, 40, 64, 1100}) {
        INFO(std::string(name(dtype)), " cols ", cols);
        Guarded x(dtype, 9, cols, 16), dy(dtype, 9, cols, 8), strided(dtype, 9, cols, 24), x0(dtype, 9, cols),
            dy0(dtype, 9, cols), flat(dtype, 9, cols);
        x0.assign(x.fill_normal(1).values());
        dy0.assign(dy.fill_normal(2).values());
        k.gelu_backward({x, dy, strided});
        k.gelu_backward({x0, dy0, flat});
        check_equal("gelu'", strided, flat.values());
        k.swiglu({x, dy, strided});
        k.swiglu({x0, dy0, flat});
        check_equal("swiglu", strided, flat.values());
        k.add({x, dy, strided});
        k.add({x0, dy0, flat});
        check_equal("add", strided, flat.values());
      }
    }
  });
}

TEST_CASE("cuda add: an f32 term is added before the one rounding") {
  under_each_setting("add", [](const Setting& setting) {
    OnDevice k(setting.placement);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      for (const std::int64_t cols : {1, 7, 8, 33}) {
        Guarded a(dtype, 6, cols, 3), b(Dtype::f32, 6, cols), y(dtype, 6, cols);
        a.fill_normal(1);
        b.fill_normal(2);
        Vec sum = a.values();
        const Vec more = b.values();
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
        k.add({a, b, y});
        check_close("y", y, sum, {dtype, 1, largest(b.values()), "one sum in fp32"});
        Guarded whole(dtype, 1, 1), tiny(Dtype::f32, 1, 1);
        whole.fill(1);
        tiny.fill(0x1.01p-8);  // just above half a spacing of bf16; f16 keeps it better
        k.add({whole, tiny, whole});
        CHECK(whole.get(0, 0) == (dtype == Dtype::bf16 ? 1 + 0x1p-7 : 1 + 0x1p-8));
      }
    }
  });
}

TEST_CASE("cuda adamw and sum of squares: bf16 gradients count as their values") {
  under_each_setting("bf16 gradients", [](const Setting& setting) {
    OnDevice k(setting.placement);
    for (const std::int64_t n : {1, 8, 17, 5003}) {
      CAPTURE(n);
      Guarded narrow(Dtype::bf16, 1, n), wide(Dtype::f32, 1, n), w(Dtype::bf16, 1, n);
      wide.assign(narrow.fill_normal(1).values());
      std::vector<Guarded> results;
      for (const Guarded* g : {&narrow, &wide}) {
        Guarded p(Dtype::f32, 1, n), m(Dtype::f32, 1, n), v(Dtype::f32, 1, n);
        p.fill_normal(2);
        m.fill_normal(3, 0.1);
        v.fill(0.01);
        kernels::AdamW a{p, m, v, *g, w};
        a.lr = 0.01f, a.decay = 0.1f, a.t = 3, a.grad_scale = 0.5f;
        k.adamw(a);
        for (const Guarded& result : {p, m, v}) results.push_back(result);
      }
      for (std::size_t i = 0; i < 3; ++i) check_equal("state", results[i], results[i + 3].values());
      double squares = 0, exact = 0;
      k.sum_squares({narrow, &squares});
      for (const double x : narrow.values()) exact += x * x;
      CHECK(squares == doctest::Approx(exact).epsilon(1e-13));
    }
  });
}

TEST_CASE("cuda embedding: gradients of thousands of ids over several tiles keep the tokens' order") {
  under_each_setting("embedding", [](const Setting& setting) {
    OnDevice k(setting.placement);
    constexpr std::int64_t kVocabulary = 5000, N = 700, D = 16;
    Guarded tokens(Dtype::i32, 1, N), dy(Dtype::bf16, N, D), dwte(Dtype::f32, kVocabulary, D);
    tokens.fill_ids(1, kVocabulary);
    for (std::int64_t n = 0; n < N; n += 3) tokens.set(0, n, 4095 + double(n % 2));  // long runs
    tokens.set(0, 5, double(kVocabulary - 1));
    dy.fill_normal(2);
    dwte.fill_normal(3);
    Guarded in_order(Dtype::f32, kVocabulary, D);
    in_order.assign(dwte.values());
    for (std::int64_t n = 0; n < N; ++n)
      for (std::int64_t d = 0; d < D; ++d) {
        const auto id = std::int64_t(tokens.get(0, n));
        in_order.set(id, d, double(float(in_order.get(id, d)) + float(dy.get(n, d))));
      }
    k.embedding_backward({tokens, View(), dy, dwte, View()});
    check_equal("dwte", dwte, in_order.values());
  });
}

TEST_CASE("cuda cross entropy: rows of several turns of a block agree with the fp64 reference") {
  under_each_setting("cross entropy", [](const Setting& setting) {
    OnDevice k(setting.placement);
    for (const Dtype dtype : formats()) {
      for (const std::int64_t V : {8192, 9001}) {
        INFO(std::string(name(dtype)), " V ", V);
        Guarded x(dtype, 3, 4), w(dtype, V, 4), t(Dtype::i32, 1, 3), dx(dtype, 3, 4), dw(Dtype::f32, V, 4),
            losses(Dtype::f32, 1, 3), logits(Dtype::f32, 2, V, 8), dlogits(dtype, 2, V, 8);
        x.fill_normal(1);
        w.fill_normal(2);
        t.assign({0, -1, double(V - 1)});
        dw.fill(0);
        double loss = 0;
        k.cross_entropy_head({x, w, t, 1.f, dx, dw, losses, &loss, logits, dlogits});
        const auto exact = reference::cross_entropy_head(x.values(), w.values(), t.values(), 1, 4);
        CHECK(loss == doctest::Approx(exact.loss).epsilon(1e-6));
        check_close("losses", losses, exact.losses,
                    {Dtype::f32, 60, 8, "exponents of up to 40 and 18 terms a thread"});
        check_close("dx", dx, exact.dx,
                    {dtype, 60 * 40 + unit_of(dtype) * 0x1p24, 2 * largest(w.values()), "as in the table"});
        check_close(
            "dw", dw, exact.dw,
            {Dtype::f32, 60 * 40 + unit_of(dtype) * 0x1p24, 2 * largest(x.values()), "as in the table"});
      }
    }
  });
}

TEST_CASE("cuda kernels: aligned rows touch no more sectors than their bytes need, and no two banks meet") {
  emulator::configure(1, emulator::Policy::lazy, emulator::Order::forward);
  emulator::reset_counters();
  OnDevice k(Placement::aligned);
  for (const Dtype dtype : formats()) {
    check_norm(k, {dtype, 20, 5, 128, 0}, true);
    check_norm(k, {dtype, 20, 1, 2048, 0}, true);
    Guarded x(dtype, 70, 512), y(dtype, 70, 512), g(Dtype::f32, 1, 512), tokens(Dtype::i32, 1, 70),
        w(dtype, 64, 512), dw(Dtype::f32, 64, 512);
    x.fill_normal(1);
    w.fill_normal(2);
    g.fill(0);
    dw.fill(0);
    tokens.fill_ids(3, 64);
    k.swiglu({x, x, y});
    k.dropout({x, y, 0.5f, {}, 0, true});
    k.embedding({tokens, View(), w, View(), y});
    k.embedding_backward({tokens, View(), x, dw, View()});
    k.linear_backward({View(), View(), x, View(), View(), g});
    Guarded logits(Dtype::f32, 70, 64), dlogits(dtype, 70, 64);
    k.cross_entropy_head({x, w, tokens, 1.f, y, dw, View(), nullptr, logits, dlogits});
  }
  for (const std::string kernel : {"norm_forward", "norm_backward", "elementwise", "add_runs", "column_parts",
                                   "sum_parts", "row_loss", "scatter_pairs"}) {
    CAPTURE(kernel);
    const emulator::Counters c = emulator::counters(kernel);
    CHECK(c.launches > 0);
    CHECK(c.bank_extra == 0);
    if (kernel != "scatter_pairs") CHECK(c.sectors <= c.sectors_least);
  }
  CHECK(emulator::to_string(emulator::take_findings()) == "");
}

// A matrix on the device, sent and fetched on one stream without waiting.
class OnStream {
 public:
  OnStream(const Guarded& from, cudaStream_t stream) : stream_(stream), view_(from.view()) {
    std::vector<std::byte> dense = packed(from);
    bytes_ = dense.size();
    cuda::check(cudaMalloc(&view_.data, bytes_), "cannot claim memory for a test");
    cuda::check(cudaMemcpyAsync(view_.data, dense.data(), bytes_, cudaMemcpyHostToDevice, stream_),
                "cannot copy to the GPU");
  }
  ~OnStream() { (void)cudaFree(view_.data); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

  operator View() const { return view_; }
  // Waits for the stream.
  Guarded fetched() const {
    std::vector<std::byte> dense(bytes_);
    cuda::check(cudaMemcpyAsync(dense.data(), view_.data, bytes_, cudaMemcpyDeviceToHost, stream_),
                "cannot copy from the GPU");
    cuda::check(cudaStreamSynchronize(stream_), "cannot copy from the GPU");
    Guarded out(view_.dtype, view_.rows, view_.cols);
    std::memcpy(out.view().data, dense.data(), bytes_);
    return out;
  }

 private:
  static std::vector<std::byte> packed(const Guarded& from) {
    const View v = from.view();
    const auto* const first = static_cast<const std::byte*>(v.data);
    REQUIRE(v.contiguous());
    return {first, first + v.size() * size_of(v.dtype)};
  }
  cudaStream_t stream_;
  View view_;
  std::size_t bytes_ = 0;
};

// The backward of a linear layer, whose products and sums all need scratch.
struct LinearWork {
  LinearWork(cudaStream_t stream, std::uint64_t seed) {
    x.fill_normal(seed);
    w.fill_normal(seed + 1);
    dy.fill_normal(seed + 2);
    dw.fill(0);
    db.fill(0);
    for (const Guarded* g : {&x, &w, &dy, &dx, &dw, &db})
      parts.push_back(std::make_unique<OnStream>(*g, stream));
  }
  kernels::LinearGrad call() const {
    return {*parts[0], *parts[1], *parts[2], *parts[3], *parts[4], *parts[5]};
  }
  void check() {
    Vec dx_exact = reference::zeros(70 * 48), dw_exact = reference::zeros(40 * 48),
        db_exact = reference::zeros(40);
    for (int time = 0; time < 2; ++time) {
      std::fill(dx_exact.begin(), dx_exact.end(), 0);
      reference::linear_backward(x.values(), w.values(), dy.values(), 48, 40, &dx_exact, &dw_exact,
                                 &db_exact);
    }
    check_close("dx", parts[3]->fetched(), dx_exact, {Dtype::f32, 50, 400, "a sum of 40 products"});
    check_close("dw", parts[4]->fetched(), dw_exact, {Dtype::f32, 150, 2000, "two sums of 70 products"});
    check_close("db", parts[5]->fetched(), db_exact, {Dtype::f32, 150, 500, "two sums of 70 terms"});
  }
  Guarded x{Dtype::f32, 70, 48}, w{Dtype::f32, 40, 48}, dy{Dtype::f32, 70, 40}, dx{Dtype::f32, 70, 48},
      dw{Dtype::f32, 40, 48}, db{Dtype::f32, 1, 40};
  std::vector<std::unique_ptr<OnStream>> parts;
};

TEST_CASE("cuda kernels: streams that work at once have scratch of their own, and one too many is refused") {
  under_each_setting("two streams", [](const Setting&) {
    kernels::CudaKernels k(2, std::int64_t{1} << 20);
    const cuda::Stream streams[] = {cuda::make_stream(), cuda::make_stream(), cuda::make_stream()};
    LinearWork first(streams[0].get(), 1), second(streams[1].get(), 11);
    for (int time = 0; time < 2; ++time) {
      cuda::enter_stream(streams[0].get());
      k.linear_backward(first.call());
      cuda::enter_stream(streams[1].get());
      k.linear_backward(second.call());
    }
    first.check();
    second.check();
    cuda::enter_stream(streams[2].get());
    CHECK_THROWS_WITH_AS(k.linear_backward(first.call()),
                         "more than 2 streams launch kernels that need scratch", Error);
  });
}

TEST_CASE("cuda kernels: what does not fit into a stream's scratch is refused with both numbers") {
  const cuda::Stream stream = cuda::make_stream();
  cuda::enter_stream(stream.get());
  kernels::CudaKernels k(1, 256);
  Guarded tokens(Dtype::i32, 1, 70), dy(Dtype::f32, 70, 4), dw(Dtype::f32, 9, 4);
  CHECK_THROWS_WITH_AS(k.embedding_backward({tokens, View(), dy, dw, View()}),
                       "embedding_backward: needs 1376 bytes of scratch, a stream has 256", Error);
}

}  // namespace
}  // namespace zt::cuda_test
