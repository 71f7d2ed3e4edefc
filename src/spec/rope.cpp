// d = head size, w_i = inverse frequency i of d / 2, L = context length before scaling.
#include "spec/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zt::spec {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

std::vector<double> plain(double theta, int d) {
  std::vector<double> w(std::size_t(d / 2));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::pow(theta, -2.0 * double(i) / d);
  return w;
}

double dynamic_theta(const ModelSpec& spec, std::int64_t sequence_length) {
  const double d = spec.head_size, L = spec.max_positions, f = spec.rope.factor;
  const double T = std::max(double(sequence_length), L);
  return spec.rope.theta * std::pow(f * T / L - (f - 1.0), d / (d - 2.0));
}

double llama3(double w, const Rope& rope) {
  const double turns = rope.original_positions * w / kTwoPi;  // within the original context
  if (turns > rope.high_freq_factor) return w;
  if (turns < rope.low_freq_factor) return w / rope.factor;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * w / rope.factor + smooth * w;
}

// The (fractional) index i whose wave makes `turns` turns within the original context.
double yarn_index(double turns, const Rope& rope, int d) {
  return d * std::log(rope.original_positions / (turns * kTwoPi)) / (2.0 * std::log(rope.theta));
}

void yarn(std::vector<double>& w, const Rope& rope, int d) {
  double low = yarn_index(rope.beta_fast, rope, d), high = yarn_index(rope.beta_slow, rope, d);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double divided = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    w[i] = w[i] * (1.0 - divided) + w[i] / rope.factor * divided;
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

std::vector<double> inverse_frequencies(const ModelSpec& spec, std::int64_t sequence_length) {
  const Rope& rope = spec.rope;
  const int d = spec.head_size;
  const bool dynamic = rope.scaling == Rope::Scaling::dynamic;
  std::vector<double> w = plain(dynamic ? dynamic_theta(spec, sequence_length) : rope.theta, d);
  switch (rope.scaling) {
    case Rope::Scaling::none:
    case Rope::Scaling::dynamic: break;
    case Rope::Scaling::linear:
      for (double& x : w) x /= rope.factor;
      break;
    case Rope::Scaling::llama3:
      for (double& x : w) x = llama3(x, rope);
      break;
    case Rope::Scaling::yarn: yarn(w, rope, d); break;
  }
  return w;
}

double rope_attention_factor(const ModelSpec& spec) {
  const Rope& rope = spec.rope;
  if (rope.scaling != Rope::Scaling::yarn) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  const double mscale = rope.mscale.value_or(0.0), all = rope.mscale_all_dim.value_or(0.0);
  if (mscale != 0.0 && all != 0.0) return yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, all);
  return yarn_mscale(rope.factor, 1.0);
}

}  // namespace zt::spec
