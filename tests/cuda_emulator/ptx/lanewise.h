// Handlers that apply one function to each lane. With all lanes active the loop is plain, so that the compiler
// makes vector instructions of it. The destination may be one of the sources: a lane reads only itself.
#pragma once

#include "warp.h"

namespace zt::emulator::ptx {

template <typename F>
inline void each_lane(Mask mask, F f) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) f(l);
  } else {
    for_lanes(mask, f);
  }
}

template <typename D, typename A, auto F>
void unary(Warp& w, const Inst& in, Mask mask) {
  D* d = lanes_of<D>(w, in.d);
  const A* a = lanes_of<A>(w, in.a);
  each_lane(mask, [=](int l) { d[l] = F(a[l]); });
}

template <typename D, typename A, typename B, auto F>
void binary(Warp& w, const Inst& in, Mask mask) {
  D* d = lanes_of<D>(w, in.d);
  const A* a = lanes_of<A>(w, in.a);
  const B* b = lanes_of<B>(w, in.b);
  each_lane(mask, [=](int l) { d[l] = F(a[l], b[l]); });
}

template <typename D, typename A, typename B, typename C, auto F>
void ternary(Warp& w, const Inst& in, Mask mask) {
  D* d = lanes_of<D>(w, in.d);
  const A* a = lanes_of<A>(w, in.a);
  const B* b = lanes_of<B>(w, in.b);
  const C* c = lanes_of<C>(w, in.c);
  each_lane(mask, [=](int l) { d[l] = F(a[l], b[l], c[l]); });
}

}  // namespace zt::emulator::ptx
