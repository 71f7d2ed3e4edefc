// A communicator that times the collectives of another one.
#pragma once

#include <map>

#include "comm/communicator.h"
#include "measure/stopwatch.h"

namespace zt::measure {

// Seconds and calls by the bytes that each call moves to a rank.
using MessageTimes = std::map<std::int64_t, Time>;

class TimedRanks final : public comm::Communicator {
 public:
  // `ranks` outlives this.
  explicit TimedRanks(comm::Communicator& ranks) : Communicator(ranks.rank(), ranks.size()), ranks_(ranks) {}

  MessageTimes gathers, reductions;

  void abandon(std::exception_ptr why) noexcept override { ranks_.abandon(std::move(why)); }
  std::unique_ptr<comm::Communicator> split(int color) override { return ranks_.split(color); }
  std::int64_t buffer_bytes() const override { return ranks_.buffer_bytes(); }
  std::string transport() const override { return ranks_.transport(); }

 private:
  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override;
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override;
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override {
    ranks_.broadcast(data, bytes, root);
  }
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override {
    ranks_.exchange(mine, all);
  }
  void do_barrier() override { ranks_.barrier(); }
  void do_rendezvous(const std::function<void()>& idle) override { ranks_.rendezvous(idle); }

  comm::Communicator& ranks_;
};

}  // namespace zt::measure
