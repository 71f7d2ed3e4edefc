#include "reference/embedding.h"

#include "parity/parity.h"

namespace zt::parity {
namespace {

constexpr std::int64_t kVocabulary = 11, kPositions = 6;

// Ids with repetitions, and both ends of the table.
Guarded ids(std::uint64_t seed, std::int64_t N, std::int64_t limit) {
  Guarded out(Dtype::i32, 1, N);
  out.fill_ids(seed, limit);
  out.set(0, 0, double(limit - 1));
  out.set(0, N - 1, 0);
  return out;
}

void check_forward(kernels::Kernels& k, Dtype dtype, std::int64_t N, std::int64_t D, bool positions) {
  const Guarded tokens_N = ids(1, N, kVocabulary), positions_N = ids(2, N, kPositions);
  Guarded wte(dtype, kVocabulary, D), wpe(dtype, kPositions, D), y(dtype, N, D, 5);
  wte.fill_normal(3);
  wpe.fill_normal(4);
  Vec exact = reference::zeros(N * D);
  reference::add_embedding(tokens_N.values(), wte.values(), D, exact);
  if (!positions) {
    k.embedding({tokens_N, View(), wte, View(), y});
    return check_equal("y", y, exact);
  }
  reference::add_embedding(positions_N.values(), wpe.values(), D, exact);
  k.embedding({tokens_N, positions_N, wte, wpe, y});
  check_close("y", y, exact, {dtype, 1, 0, "one sum of two terms"});
}

void check_backward(kernels::Kernels& k, Dtype dtype, std::int64_t N, std::int64_t D, bool positions) {
  const Guarded tokens_N = ids(1, N, kVocabulary), positions_N = ids(2, N, kPositions);
  Guarded dy(dtype, N, D, 5), dwte(Dtype::f32, kVocabulary, D), dwpe(Dtype::f32, kPositions, D);
  dy.fill_normal(3);
  dwte.fill_normal(4);
  dwpe.fill_normal(5);
  Vec exact_wte = dwte.values(), exact_wpe = dwpe.values();
  reference::add_embedding_gradient(tokens_N.values(), dy.values(), D, exact_wte);
  const double size = largest(dy.values()) * double(N) + 3;
  k.embedding_backward({tokens_N, positions_N, dy, dwte, positions ? dwpe.view() : View()});
  if (positions) reference::add_embedding_gradient(positions_N.values(), dy.values(), D, exact_wpe);
  const Bound bound{Dtype::f32, double(N) / 2, size, "at most N tokens are added one by one"};
  check_close("dwte", dwte, exact_wte, bound);
  check_close("dwpe", dwpe, exact_wpe, bound);
}

template <typename F>
void sweep(F check) {
  for (const Dtype dtype : formats())
    for (const std::int64_t D : ragged())
      for (const std::int64_t N : {2, 130})
        for (const bool positions : {false, true}) {
          INFO(name(dtype), " N ", N, " D ", D, " positions ", positions);
          check(dtype, N, D, positions);
        }
}

}  // namespace

void check_embedding(kernels::Kernels& k) {
  sweep([&](auto... a) { check_forward(k, a...); });
}

void check_embedding_backward(kernels::Kernels& k) {
  sweep([&](auto... a) { check_backward(k, a...); });
}

namespace {

TEST_CASE("embedding: gradients of bf16 activations are summed in fp32, in the tokens' order") {
  // One gradient of 1 and 255 of 2^-9: 1.498046875; a bf16 sum would stay at 1 (deepspeedai/DeepSpeed#2768).
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded tokens(Dtype::i32, 1, 256), dy(Dtype::bf16, 256, 3), dwte(Dtype::f32, 2, 3);
    tokens.fill(1);
    dy.fill(0x1p-9);
    dwte.fill(0);
    for (int d = 0; d < 3; ++d) dy.set(0, d, 1);
    k->embedding_backward({tokens, View(), dy, dwte, View()});
    check_equal("dwte", dwte, {0, 0, 0, 1.498046875, 1.498046875, 1.498046875});
  }
}

TEST_CASE("embedding: a frozen table gets no gradient and needs no ids, the other the same bits") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    const Guarded tokens = ids(1, 50, kVocabulary), positions = ids(2, 50, kPositions);
    Guarded dy(Dtype::f32, 50, 70), dwte(Dtype::f32, kVocabulary, 70), dwpe(Dtype::f32, kPositions, 70);
    dy.fill_normal(3);
    dwte.fill_normal(4);
    dwpe.fill_normal(5);
    Guarded both_wte = dwte, both_wpe = dwpe, only_wte = dwte, only_wpe = dwpe;
    k->embedding_backward({tokens, positions, dy, both_wte, both_wpe});
    k->embedding_backward({tokens, View(), dy, only_wte, View()});
    k->embedding_backward({View(), positions, dy, View(), only_wpe});
    check_equal("dwte", only_wte, both_wte.values());
    check_equal("dwpe", only_wpe, both_wpe.values());
    k->embedding_backward({View(), View(), dy, View(), View()});
  }
}

TEST_CASE("embedding: gradients do not depend on the number of threads") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Vec first;
    for (const int threads : {1, 2, 3, 5}) {
      const Guarded tokens = ids(1, 300, kVocabulary);
      Guarded dy(Dtype::f32, 300, 130), dwte(Dtype::f32, kVocabulary, 130);
      dy.fill_normal(2);
      dwte.fill(0);
      with_threads(threads, [&] { k->embedding_backward({tokens, View(), dy, dwte, View()}); });
      if (threads == 1) first = dwte.values();
      check_equal("dwte", dwte, first);
    }
  }
}

}  // namespace
}  // namespace zt::parity
