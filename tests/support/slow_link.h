// A model of a slow network, and random delays, around any communicator. For tests only.
#pragma once

#include <cstdint>
#include <memory>

#include "base/random.h"
#include "comm/communicator.h"

namespace zt::test {

// Passes every collective on to another communicator after a pause of seconds(bytes this rank sends). Counts
// traffic as the transport inside does; its rank and size are the same. The inner one must outlive it.
class DelayedLink : public comm::Communicator {
 public:
  explicit DelayedLink(comm::Communicator& inner);
  void abandon(std::exception_ptr why) noexcept override { inner_.abandon(std::move(why)); }
  std::int64_t buffer_bytes() const override { return inner_.buffer_bytes(); }
  std::string transport() const override { return inner_.transport(); }

 protected:
  comm::Communicator& inner() { return inner_; }
  virtual double seconds(std::int64_t sent_bytes) = 0;

 private:
  void pause(std::int64_t sent_bytes);
  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override;
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override;
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override;
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void do_barrier() override;
  void do_rendezvous(const std::function<void()>& idle) override { inner_.rendezvous(idle); }

  comm::Communicator& inner_;
};

// A link with a latency and a bandwidth: each collective takes `latency_seconds` and the time its bytes take,
// whatever the cores do meanwhile (the thread sleeps). Small messages are free.
class SlowLink : public DelayedLink {
 public:
  struct Model {
    double latency_seconds = 0, bytes_per_second = 1e300;
  };
  SlowLink(comm::Communicator& inner, Model model) : DelayedLink(inner), model_(model) {}
  std::unique_ptr<comm::Communicator> split(int color) override;
  // Seconds that the model has put in so far: the wire time.
  double wire_seconds() const { return wire_seconds_; }

 private:
  double seconds(std::int64_t sent_bytes) override;
  Model model_;
  double wire_seconds_ = 0;
};

// Before each collective a random pause of up to `longest_seconds`, different on each rank: shakes out missing
// waits. A pure function of the seed, the rank and the number of the collective.
class RandomDelays : public DelayedLink {
 public:
  RandomDelays(comm::Communicator& inner, std::uint64_t seed, double longest_seconds)
      : DelayedLink(inner), seed_(seed), longest_(longest_seconds) {}
  std::unique_ptr<comm::Communicator> split(int color) override;

 private:
  double seconds(std::int64_t sent_bytes) override;
  std::uint64_t seed_, calls_ = 0;
  double longest_;
};

}  // namespace zt::test
