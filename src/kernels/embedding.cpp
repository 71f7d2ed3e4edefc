#include "kernels/embedding.h"

#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

template <typename T>
void embedding_typed(const Embedding& a) {
  const std::int64_t N = a.y_ND.rows, D = a.y_ND.cols;
  const Rows<const T> wte(a.wte_VD), wpe(a.wpe_PD);
  const Rows<T> y(a.y_ND);
  const std::int32_t* const tokens_N = a.tokens_N.as<std::int32_t>();
  const std::int32_t* const positions_N = wpe ? a.positions_N.as<std::int32_t>() : nullptr;
#pragma omp parallel for schedule(static) if (N * D > kWorthThreads)
  for (std::int64_t n = 0; n < N; ++n) {
    const T* const token_D = wte[tokens_N[n]];
    T* const y_D = y[n];
    if (!wpe) {
      std::copy(token_D, token_D + D, y_D);
      continue;
    }
    const T* const position_D = wpe[positions_N[n]];
#pragma omp simd
    for (std::int64_t d = 0; d < D; ++d) y_D[d] = rounded_to<T>(float(token_D[d]) + float(position_D[d]));
  }
}

// Tokens are added one after the other; threads share out the columns, so each sum has one order.
template <typename T>
void add_rows(const View& ids_N, const Rows<const T>& dy, const View& dw, std::int64_t first,
              std::int64_t count) {
  const std::int32_t* const ids = static_cast<const std::int32_t*>(ids_N.data);
  float* const dw_data = static_cast<float*>(dw.data);
  for (std::int64_t n = 0; n < ids_N.size(); ++n) {
    float* const dw_D = dw_data + ids[n] * dw.stride + first;
    const T* const dy_D = dy[n] + first;
#pragma omp simd
    for (std::int64_t d = 0; d < count; ++d) dw_D[d] += float(dy_D[d]);
  }
}

template <typename T>
void embedding_backward_typed(const EmbeddingGrad& a) {
  constexpr std::int64_t kColumns = 64;  // four cache lines of f32: wide enough to stream
  [[maybe_unused]] const std::int64_t N = a.dy_ND.rows, D = a.dy_ND.cols;
  const Rows<const T> dy(a.dy_ND);
#pragma omp parallel for schedule(dynamic) if (N * D > kWorthThreads)
  for (std::int64_t first = 0; first < D; first += kColumns) {
    const std::int64_t count = std::min(kColumns, D - first);
    if (a.dwte_VD) add_rows(a.tokens_N, dy, a.dwte_VD, first, count);
    if (a.dwpe_PD) add_rows(a.positions_N, dy, a.dwpe_PD, first, count);
  }
}

bool are_ids(const View& view, std::int64_t n) { return view.dtype == Dtype::i32 && is_vector(view, n); }

}  // namespace

void CpuKernels::embedding(const Embedding& a) {
  const std::int64_t N = a.y_ND.rows, D = a.y_ND.cols;
  require(are_ids(a.tokens_N, N), "embedding", "needs one i32 token for each row of y");
  require(!a.wpe_PD || are_ids(a.positions_N, N), "embedding", "needs one i32 position for each row of y");
  require(a.wte_VD.cols == D && (!a.wpe_PD || a.wpe_PD.cols == D), "embedding",
          "widths of wte, wpe and y differ");
  with_type(a.y_ND.dtype, "embedding", [&](auto type) { embedding_typed<decltype(type)>(a); });
}

void CpuKernels::embedding_backward(const EmbeddingGrad& a) {
  const std::int64_t N = a.dy_ND.rows, D = a.dy_ND.cols;
  require(!a.dwte_VD || are_ids(a.tokens_N, N), "embedding_backward",
          "needs one i32 token for each row of dy");
  require(!a.dwpe_PD || are_ids(a.positions_N, N), "embedding_backward",
          "needs one i32 position for each row of dy");
  for (const View& dw : {a.dwte_VD, a.dwpe_PD})
    require(!dw || (dw.cols == D && dw.dtype == Dtype::f32), "embedding_backward",
            "dwte and dwpe must be f32 and as wide as dy");
  if (!a.dwte_VD && !a.dwpe_PD) return;
  with_type(a.dy_ND.dtype, "embedding_backward",
            [&](auto type) { embedding_backward_typed<decltype(type)>(a); });
}

}  // namespace zt::kernels
