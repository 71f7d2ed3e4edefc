// Embedding by its formula (kernels/embedding.h). Ids come as doubles, as everything here.
#pragma once

#include "reference/matrix.h"

namespace zt::reference {

// y_n = w_{id_n}; added to y.
inline void add_embedding(const Vec& ids, const Vec& w, std::int64_t D, Vec& y) {
  for (std::int64_t n = 0; n < std::int64_t(ids.size()); ++n)
    for (std::int64_t d = 0; d < D; ++d) at(y, D, n, d) += at(w, D, std::int64_t(ids[std::size_t(n)]), d);
}

// dw_{id_n} += dy_n.
inline void add_embedding_gradient(const Vec& ids, const Vec& dy, std::int64_t D, Vec& dw) {
  for (std::int64_t n = 0; n < std::int64_t(ids.size()); ++n)
    for (std::int64_t d = 0; d < D; ++d) at(dw, D, std::int64_t(ids[std::size_t(n)]), d) += at(dy, D, n, d);
}

}  // namespace zt::reference
