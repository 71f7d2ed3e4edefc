#include "plan/published_traffic.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "plan/gather_hiding.h"
#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

TEST_CASE("published: ZeRO moves twice the parameters, and three times at stage 3 (section 7)") {
  for (const double psi : {1., 1.5e9, 1e13}) {
    for (const int stage : {0, 1, 2}) CHECK(zero_volume(stage, psi) == 2 * psi);
    CHECK(zero_volume(3, psi) == 3 * psi);
    for (const double d : {1., 2., 3., 64., 1e6}) {
      // A ring sends every slice but one of each tensor, once for each transfer.
      double sent = 0;
      for (int transfer = 0; transfer < 3; ++transfer) sent += psi - psi / d;
      CHECK(zero_volume_exact(3, psi, d) == doctest::Approx(sent));
      CHECK(zero_volume_exact(1, psi, d) == doctest::Approx(sent * 2 / 3));
    }
  }
}

TEST_CASE("published: partitioned activations add a twelfth to model parallelism (section 8)") {
  for (const double hidden : {1600., 8192., 25600.}) {
    CHECK(model_parallel_volume(32, 1024, hidden) == 12 * 32 * 1024 * hidden);
    const double extra =
        partitioned_activation_volume(32, 1024, hidden) / model_parallel_volume(32, 1024, hidden);
    CHECK(extra == doctest::Approx(1.0 / 12));
    CHECK(extra < 0.1);
  }
}

TEST_CASE("published: what FSDP sends across hosts, 512 GPUs in hosts of eight") {
  CHECK(prints(fsdp_replicated_volume(1, 512), 2.0, 0.01));
  CHECK(prints(fsdp_sharded_volume(1, 512), 2.99, 0.01));
  CHECK(prints(fsdp_hybrid_volume(1, 512, 8), 0.25, 0.01));
  CHECK(fsdp_hybrid_volume(1, 512, 8) == 2.0 * 511 / (8 * 512));
  CHECK(fsdp_hybrid_volume(1, 512, 1) == fsdp_replicated_volume(1, 512));
}

TEST_CASE("published: ZeRO++ cuts 3 M between nodes to 0.75 M (table 1)") {
  const CrossNode plain = zero_plus_plus_volume({}), all = zero_plus_plus_volume({true, true, true});
  CHECK(plain.forward_gather == 1);
  CHECK(plain.backward_gather == 1);
  CHECK(plain.reduce_scatter == 1);
  CHECK(plain.total() == 3);
  CHECK(all.forward_gather == 0.5);
  CHECK(all.backward_gather == 0);
  CHECK(all.reduce_scatter == 0.25);
  CHECK(all.total() == 0.75);
  // The same as bytes of each parameter, of which M has two.
  CHECK(kWireZeroPlusPlus.forward == 2 * all.forward_gather);
  CHECK(kWireZeroPlusPlus.backward == 2 * all.backward_gather);
  CHECK(kWireZeroPlusPlus.gradient == 2 * all.reduce_scatter);
  // Each alone: quantized weights halve both gathers, copies in the node remove one, quantized gradients
  // leave a quarter.
  CHECK(zero_plus_plus_volume({true, false, false}).total() == 2);
  CHECK(zero_plus_plus_volume({false, true, false}).total() == 2);
  CHECK(zero_plus_plus_volume({false, false, true}).total() == 2.25);
}

TEST_CASE("published: ZeRO++'s copies in a node and two hops of quantized gradients") {
  CHECK(node_copy_bytes(7e9, 8) == 1.75e9);
  const double one = quantized_reduce_volume(1e9, 16, 4, false),
               two = quantized_reduce_volume(1e9, 16, 4, true);
  CHECK(two == 0.25e9);
  CHECK(one == 16 * two);
}

}  // namespace
}  // namespace zt::plan
