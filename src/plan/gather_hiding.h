// From how many tokens on computing hides the gathers and reductions of ZeRO-3, and the time they take at
// least.
//
// A layer of psi parameters computes 2 psi T FLOPs forward and 4 psi T backward for T tokens of a micro-batch
// on one rank, and moves b psi bytes. F = FLOP/s a rank achieves, B = bytes/s at which a gather arrives (a
// node's ingress, or the link inside a node). Derived by setting both times equal; agrees with the JAX
// scaling book (2,200 tokens inside an H100 node).
#pragma once

#include <cstdint>

namespace zt::plan {

// Bytes a parameter puts on the wire in each of a micro-batch's three transfers.
struct WireBytes {
  double forward = 2;   // weights for forward
  double backward = 2;  // weights for backward; 0 where they need not travel again
  double gradient = 2;
};
inline constexpr WireBytes kWireBf16{2, 2, 2};
inline constexpr WireBytes kWireBf16Fp32Gradients{2, 2, 4};
inline constexpr WireBytes kWireFp32{4, 4, 4};
// Between nodes: int8 weights, second gather inside the node, int4 gradients. Wang et al. 2023 (ZeRO++).
inline constexpr WireBytes kWireZeroPlusPlus{1, 0, 0.5};

enum class Pass : std::uint8_t { forward, backward, backward_recompute };

// Tokens of a micro-batch on one rank from which a pass hides what it moves:
//   forward              T >= b_w F / (2 B)
//   backward             T >= (b_w + b_g) F / (4 B)
//   backward, recompute  T >= (b_w + b_g) F / (6 B), one gather kept for recompute and backward
double tokens_to_hide(Pass pass, const WireBytes& wire, double flops, double bandwidth);
// Stages 1 and 2 gather nothing meanwhile; a backward that reduces (stage 1: the last of a step; stage 2:
// each) hides it from  T >= b_g F / (4 B).
double tokens_to_hide_reduction(const WireBytes& wire, double flops, double bandwidth);
// Attention computes besides: s/(6 h) as much as the layer, s = sequence length, h = hidden size. So divide T
// by this.
double attention_factor(double sequence_length, double hidden);

// Seconds of ZeRO-3's transfers of a micro-batch at least: (forward + backward + gradient bytes) x parameters
// / B.
double transfer_floor_seconds(double parameters, const WireBytes& wire, double bandwidth);

}  // namespace zt::plan
