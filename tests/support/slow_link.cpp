#include "support/slow_link.h"

#include <chrono>
#include <thread>
#include <utility>

namespace zt::test {
namespace {

// A decorator of a communicator that was made for it.
template <typename Link>
class Owning : public Link {
 public:
  template <typename... Settings>
  explicit Owning(std::unique_ptr<comm::Communicator> inner, Settings... settings)
      : Link(*inner, settings...), owned_(std::move(inner)) {}

 private:
  std::unique_ptr<comm::Communicator> owned_;
};

}  // namespace

DelayedLink::DelayedLink(comm::Communicator& inner)
    : comm::Communicator(inner.rank(), inner.size()), inner_(inner) {}

void DelayedLink::pause(std::int64_t sent_bytes) {
  const double s = seconds(sent_bytes);
  if (s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(s));
}

void DelayedLink::do_all_gather(std::byte* whole, std::int64_t slice_bytes) {
  pause(slice_bytes * (size() - 1));
  inner_.all_gather(whole, slice_bytes);
}

void DelayedLink::do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  pause(slice_elements * size_of(wire) * (size() - 1));
  inner_.reduce_scatter(whole, dtype, wire, slice_elements);
}

void DelayedLink::do_broadcast(std::byte* data, std::int64_t bytes, int root) {
  pause(bytes);
  inner_.broadcast(data, bytes, root);
}

void DelayedLink::do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  pause(0);
  inner_.exchange(mine, all);
}

void DelayedLink::do_barrier() {
  pause(0);
  inner_.barrier();
}

double SlowLink::seconds(std::int64_t sent_bytes) {
  if (sent_bytes == 0) return 0;
  const double s = model_.latency_seconds + double(sent_bytes) / model_.bytes_per_second;
  wire_seconds_ += s;
  return s;
}

std::unique_ptr<comm::Communicator> SlowLink::split(int color) {
  return std::make_unique<Owning<SlowLink>>(inner().split(color), model_);
}

double RandomDelays::seconds(std::int64_t) {
  const RandomStream stream{seed_, Purpose::test, std::uint32_t(rank()), 4};
  return longest_ * uniform(stream.words(calls_++)[0]);
}

std::unique_ptr<comm::Communicator> RandomDelays::split(int color) {
  return std::make_unique<Owning<RandomDelays>>(inner().split(color), seed_ + 1, longest_);
}

}  // namespace zt::test
