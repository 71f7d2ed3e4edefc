// What moves between ranks. Which collective an op is follows from who holds what.
#include "exec/executor.h"

namespace zt::exec {

using schedule::Op;
using schedule::SlotKind;

void Executor::gather(const Op& op) {
  const std::int64_t slice_bytes = store_.layout(op.block).slice() * size_of(store_.dtype());
  std::byte* whole = address(op, SlotKind::W, op.block);
  if (whole == nullptr)
    whole = static_cast<std::byte*>(store_.weights(op.block));
  else
    device_.copy(whole + comm_.rank() * slice_bytes, store_.owned_weights(op.block), slice_bytes);
  comm_.all_gather(whole, slice_bytes);
}

void Executor::accumulate(const Op& op) {
  const auto* const whole = reinterpret_cast<const float*>(address(op, SlotKind::G, op.block));
  device_.add(store_.grad_dtype(), store_.gradient(op.block), whole, store_.gradient_elements(op.block));
}

void Executor::reduce(const Op& op) {
  const std::int64_t slice = store_.layout(op.block).slice();
  const bool everywhere = store_.share().partition.update_whole;
  const auto sum = [&](void* whole, Dtype dtype) {
    const Dtype wire = size_of(wire_) < size_of(dtype) ? wire_ : dtype;
    everywhere ? comm_.all_reduce(whole, dtype, wire, slice)
               : comm_.reduce_scatter(whole, dtype, wire, slice);
  };
  auto* const whole = reinterpret_cast<float*>(address(op, SlotKind::G, op.block));
  if (whole == nullptr) return sum(store_.gradient(op.block), store_.grad_dtype());
  sum(whole, Dtype::f32);
  for (const plan::Part& part : store_.parts(op.block))
    device_.add(store_.grad_dtype(), store_.gradient(op.block, part), whole + part.first, part.count);
}

}  // namespace zt::exec
