#include "plan/gather_hiding.h"

namespace zt::plan {

double tokens_to_hide(Pass pass, const WireBytes& wire, double flops, double bandwidth) {
  const double flops_per_byte = flops / bandwidth;
  switch (pass) {
    case Pass::forward: return wire.forward * flops_per_byte / 2;
    case Pass::backward: return (wire.backward + wire.gradient) * flops_per_byte / 4;
    case Pass::backward_recompute: return (wire.backward + wire.gradient) * flops_per_byte / 6;
  }
  return 0;
}

double tokens_to_hide_reduction(const WireBytes& wire, double flops, double bandwidth) {
  return wire.gradient * flops / bandwidth / 4;
}

double attention_factor(double sequence_length, double hidden) { return 1 + sequence_length / (6 * hidden); }

double transfer_floor_seconds(double parameters, const WireBytes& wire, double bandwidth) {
  return parameters * (wire.forward + wire.backward + wire.gradient) / bandwidth;
}

}  // namespace zt::plan
