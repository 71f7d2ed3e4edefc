// The parity table: one row for each kernel, run on each backend.
#include <algorithm>
#include <regex>
#include <set>

#include "parity/parity.h"
#include "support/paths.h"

namespace zt::parity {
namespace {

struct Row {
  const char* name;  // the method of Kernels
  void (*check)(kernels::Kernels&);
};

constexpr Row kTable[] = {
    {"linear", check_linear},
    {"linear_backward", check_linear_backward},
    {"rms_norm", check_rms_norm},
    {"rms_norm_backward", check_rms_norm_backward},
    {"layer_norm", check_layer_norm},
    {"layer_norm_backward", check_layer_norm_backward},
    {"rope", check_rope},
    {"attention", check_attention},
    {"attention_backward", check_attention_backward},
    {"attention_decode", check_attention_decode},
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

TEST_CASE("parity: every kernel of every backend agrees with the fp64 reference") {
  for (const Backend& backend : backends()) {
    for (const Row& row : kTable) {
      const std::string title = std::string(row.name) + " on " + backend.name;
      SUBCASE(title.c_str()) {
        const auto kernels = backend.make();
        row.check(*kernels);
      }
    }
  }
}

TEST_CASE("parity: every method of Kernels has exactly one row in the table") {
  const std::string header = test::read_file(test::source_dir() / "src/kernels/kernels.h");
  const std::regex method("virtual void ([a-z_0-9]+)\\(");
  std::multiset<std::string> methods, rows;
  for (std::sregex_iterator it(header.begin(), header.end(), method), end; it != end; ++it)
    methods.insert((*it)[1]);
  for (const Row& row : kTable) rows.insert(row.name);
  CHECK(methods.size() > 0);
  CHECK(methods == rows);
}

}  // namespace
}  // namespace zt::parity
