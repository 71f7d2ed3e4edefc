#include "measure/links.h"

#include <algorithm>

#include "exec/engine.h"
#include "measure/probes.h"
#include "measure/rounds.h"
#include "measure/timed_ranks.h"

namespace zt::measure {

// Least squares of (latency + bytes / bandwidth - seconds) / seconds.
plan::Link fit_link(const std::vector<double>& bytes, const std::vector<double>& seconds) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0, best = 0, least = seconds.front();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double weight = 1 / (seconds[i] * seconds[i]), x = bytes[i], y = seconds[i];
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
    best = std::max(best, x / y);
    least = std::min(least, y);
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  if (!(slope > 0)) return {best, least};
  const double latency = (wy - slope * wx) / w;
  if (latency >= 0) return {1 / slope, latency};
  return {wxx / wxy, 0};  // the best line through the origin
}

namespace {

exec::EngineOptions sliced_options(const Probe& p, int ranks, bool lanes) {
  exec::EngineOptions o;
  o.shape.sequence_length = p.length;
  o.shape.rows = o.shape.eval_rows = p.rows;
  o.shape.policy.zero.gather_weights = true;
  o.shape.policy.zero.reduce = schedule::ReduceEvery::micro;
  o.shape.partition = plan::Partition::of_stage(3, ranks, o.shape.policy.zero.reduce);
  o.lanes.threads = lanes;
  return o;
}

// What steps of one model took on this rank.
struct Steps {
  double seconds = 0, moving = 0;  // of a step (the median over rounds), and of its collectives,
  double collectives = 1;          // so many of them
  MessageTimes gathers, reductions;
};

double total(const MessageTimes& times) {
  double seconds = 0;
  for (const auto& [bytes, time] : times) seconds += time.seconds;
  return seconds;
}

double calls(const MessageTimes& times) {
  double sum = 0;
  for (const auto& [bytes, time] : times) sum += static_cast<double>(time.calls);
  return sum;
}

Steps play(comm::Communicator& ranks, const Probe& probe, const Pace& pace, bool lanes) {
  const spec::ModelSpec model = model_of(probe);
  TimedRanks timed(ranks);
  exec::Engine engine(model, sliced_options(probe, ranks.size(), lanes), &timed);
  shard::initialise(engine.params(), model, 1);
  engine.gather_weights();
  const exec::HostBatch batch = random_batch(probe);
  std::uint32_t step = 0, warm = 0;
  std::vector<double> seconds;
  play_rounds(
      ranks, pace,
      [&] {
        ++step;
        engine.train_step({&batch, 1}, batch.supervised() * ranks.size(), step, kernels::AdamW{.t = step},
                          1.0);
      },
      [&] {
        if (!seconds.empty()) return;
        timed.gathers = timed.reductions = {};
        warm = step;
      },
      [&](double each) { seconds.push_back(each); });
  const double moving = (total(timed.gathers) + total(timed.reductions)) / (step - warm);
  const double collectives = calls(timed.gathers) + calls(timed.reductions);
  return {median(seconds), moving, collectives / (step - warm), timed.gathers, timed.reductions};
}

// Points of a line: bytes that moved, and seconds that took.
struct Points {
  std::vector<double> bytes, seconds;
  void add(const MessageTimes& times) {
    for (const auto& [moved, time] : times) {
      bytes.push_back(static_cast<double>(moved));
      seconds.push_back(time.seconds / static_cast<double>(time.calls));
    }
  }
  plan::Link link(comm::Communicator& ranks) const {
    plan::Link line = fit_link(bytes, mean_over_ranks(ranks, seconds));
    line.latency /= ranks.size() - 1;
    return line;
  }
};

// Of a cache's size to one that comes from memory.
std::vector<Probe> sliced_probes(bool quick) {
  using spec::Family;
  if (quick) return {{Family::llama, 2, 128, 4, 344, 256, 64, 2}};
  return {{Family::gpt2, 4, 64, 4, 256, 256, 64, 4},
          {Family::llama, 4, 128, 4, 344, 256, 128, 8},
          {Family::gpt2, 6, 256, 8, 1024, 256, 256, 4},
          {Family::llama, 4, 512, 8, 1376, 4096, 256, 2},
          {Family::gpt2, 3, 768, 12, 3072, 8192, 256, 1}};
}

}  // namespace

Moving measure_moving(comm::Communicator& ranks, const Options& options) {
  if (ranks.size() == 1) return {};
  const Pace pace = options.quick ? Pace{0.01, 3} : Pace{0.3, 3};
  Points gathers, reductions, handing;
  std::vector<double> whole;
  for (const Probe& probe : sliced_probes(options.quick)) {
    const Steps in_line = play(ranks, probe, pace, false), lanes = play(ranks, probe, pace, true);
    whole.push_back(lanes.seconds);
    gathers.add(in_line.gathers);
    reductions.add(in_line.reductions);
    const double not_hidden = lanes.seconds - in_line.seconds + in_line.moving;
    handing.bytes.push_back(in_line.moving / in_line.collectives);
    handing.seconds.push_back(std::max(not_hidden, in_line.moving / 20) / in_line.collectives);
  }
  // Of a collective, so much is not hidden: a share of its seconds, and what handing over to its lane takes.
  const std::vector<double> moving_each = mean_over_ranks(ranks, handing.bytes),
                            lost_each = mean_over_ranks(ranks, handing.seconds);
  const double handed = fit_link(moving_each, lost_each).latency;
  double moved = 0, shared = 0;
  for (std::size_t i = 0; i < lost_each.size(); ++i) {
    moved += moving_each[i];
    shared += std::max(0.0, lost_each[i] - handed);
  }
  // Computing at speed c while as much time passes as moving takes at speed c costs (1 - c) / c of it.
  const double speed = 1 / (1 + std::clamp(shared / moved, 0.0, 4.0));
  Moving moving{gathers.link(ranks), reductions.link(ranks), speed, speed, {}};
  const std::vector<double> whole_each = mean_over_ranks(ranks, whole);
  const std::vector<Probe> list = sliced_probes(options.quick);
  for (std::size_t i = 0; i < list.size(); ++i)
    moving.steps.push_back(
        {model_of(list[i]), sliced_options(list[i], ranks.size(), true).shape, whole_each[i]});
  for (plan::Link* const link : {&moving.gather, &moving.reduce})
    link->latency += handed / (ranks.size() - 1);
  return moving;
}

}  // namespace zt::measure
