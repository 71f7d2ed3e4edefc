#include "plan/published_flops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "plan/published_activations.h"
#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

constexpr double kA100 = 312e12;

// Narayanan et al. 2021, table 1 (A100, s 2048, V 51200).
const struct {
  double billions, hidden, layers, gpus, teraflops, percent, petaflops;
} kMegatron[] = {{1.7, 2304, 24, 32, 137, 44, 4.4},         {3.6, 3072, 30, 64, 138, 44, 8.8},
                 {7.5, 4096, 36, 128, 142, 46, 18.2},       {18.4, 6144, 40, 256, 135, 43, 34.6},
                 {39.1, 8192, 48, 512, 138, 44, 70.8},      {76.1, 10240, 60, 1024, 140, 45, 143.8},
                 {145.6, 12288, 80, 1536, 148, 47, 227.1},  {310.1, 16384, 96, 1920, 155, 50, 297.4},
                 {529.6, 20480, 105, 2520, 163, 52, 410.2}, {1008.0, 25600, 128, 3072, 163, 52, 502.0}};

TEST_CASE("published: parameters of all ten rows of Megatron-LM's table 1, to the printed digit") {
  for (const auto& row : kMegatron) {
    CAPTURE(row.billions);
    const GptShape shape{row.layers, row.hidden};
    CHECK(prints(megatron_parameters(shape) / 1e9, row.billions, 0.1));
    // Equation 2 as it is written.
    const double l = row.layers, h = row.hidden;
    CHECK(megatron_parameters(shape) ==
          doctest::Approx(12 * l * h * h * (1 + 13 / (12 * h) + (51200 + 2048) / (12 * l * h))));
  }
  CHECK(megatron_parameters({40, 6144}) == 18449743872.0);
}

TEST_CASE("published: the other columns of Megatron-LM's table 1 agree as far as they are rounded") {
  for (const auto& row : kMegatron) {
    CAPTURE(row.billions);
    // The achieved rate is one of [x - 0.5, x + 0.5); some rate in it must print both other columns.
    const double low = row.teraflops - 0.5, high = row.teraflops + 0.5;
    CHECK(low * row.gpus / 1e3 <= row.petaflops + 0.05);
    CHECK(high * row.gpus / 1e3 > row.petaflops - 0.05);
    CHECK(low * 1e12 / kA100 * 100 <= row.percent + 0.5);
    CHECK(high * 1e12 / kA100 * 100 > row.percent - 0.5);
    // 4.4 and 8.8 PFLOPS are themselves known to a hundredth only.
    const double percent = 100 * utilization(row.petaflops * 1e15, 1, row.gpus, kA100);
    CHECK(prints(percent, row.percent, 1 + 2 * percent * 0.05 / row.petaflops));
  }
}

TEST_CASE("published: months of training by 8 T P / (n X)") {
  const double day = 86400;
  CHECK(prints(training_seconds(300e9, 175e9, 1024, 140e12) / day, 34, 1));
  CHECK(prints(training_seconds(300e9, 175e9, 1024, 140e12) / day, 33.9, 0.1));
  CHECK(prints(training_seconds(450e9, 1008e9, 3072, 163e12) / day, 84, 1));
  CHECK(prints(training_seconds(450e9, 1008e9, 3072, 163e12) / day, 83.9, 0.1));
}

TEST_CASE("published: equation 3 gives MT-NLG's TFLOPS from its seconds a step") {
  // Smith et al. 2022, section 2.4: 530B, batch 1920.
  const GptShape mt_nlg{105, 20480};
  const struct {
    double gpus, seconds, teraflops, computed;
  } rows[] = {{2240, 60.1, 126, 125.7}, {2800, 50.2, 121, 120.4}, {3360, 44.4, 113, 113.5}};
  for (const auto& row : rows) {
    CAPTURE(row.gpus);
    const double achieved = megatron_step_flops(mt_nlg, 1920) / row.seconds / row.gpus / 1e12;
    CHECK(prints(achieved, row.computed, 0.1));
    // The middle row is printed as 121, which its seconds, 50.15 to 50.25, do not give.
    CHECK(prints(achieved, row.teraflops, row.gpus == 2800 ? 1.2 : 1.0));
  }
}

TEST_CASE("published: equation 3 is four forward passes, and the head's three") {
  // Per layer and token 24 h^2 + 4 s h forward; the head's logits 6 h V forward and backward, not recomputed.
  for (const auto& row : kMegatron) {
    const double h = row.hidden, l = row.layers, s = 2048, V = 51200, B = 512;
    const double forward = l * (24 * h * h + 4 * s * h);
    CHECK(megatron_step_flops({l, h}, B) == doctest::Approx(B * s * (4 * forward + 6 * h * V)));
    CHECK(korthikanti_model_flops({l, h}, B) == doctest::Approx(B * s * (3 * forward + 6 * h * V)));
  }
}

TEST_CASE("published: Korthikanti's table 5, shares of peak computed from seconds a step") {
  const struct {
    double layers, hidden, gpus, batch, seconds, mfu, hfu, computed_mfu, computed_hfu;
  } rows[] = {{48, 6144, 8, 4, 1.10, 41.5, 43.7, 41.65, 43.81},
              {96, 12288, 64, 64, 13.75, 51.4, 52.8, 51.39, 52.77},
              {105, 20480, 280, 280, 37.83, 56.0, 57.0, 56.05, 56.96},
              {128, 25600, 512, 512, 71.49, 56.3, 57.0, 56.27, 57.01}};
  for (const auto& row : rows) {
    CAPTURE(row.hidden);
    const GptShape shape{row.layers, row.hidden};
    const double mfu =
        100 * utilization(korthikanti_model_flops(shape, row.batch), row.seconds, row.gpus, kA100);
    const double hfu =
        100 * utilization(korthikanti_hardware_flops(shape, row.batch), row.seconds, row.gpus, kA100);
    CHECK(prints(mfu, row.computed_mfu, 0.01));
    CHECK(prints(hfu, row.computed_hfu, 0.01));
    // Printed from unrounded seconds; 1.10 s alone leaves 0.2.
    const double slack = 0.05 + mfu * 0.005 / row.seconds;
    CHECK(std::abs(mfu - row.mfu) <= slack);
    CHECK(std::abs(hfu - row.hfu) <= slack);
  }
}

TEST_CASE("published: gains of Korthikanti's table 5 follow from its seconds") {
  const struct {
    double full, ours, gain;
  } rows[] = {{1.42, 1.10, 29.0}, {18.13, 13.75, 31.8}, {49.05, 37.83, 29.7}, {94.42, 71.49, 32.1}};
  for (const auto& row : rows) {
    const double same = 1e15;  // FLOPs of a step, whatever they are
    const double gain = utilization(same, row.ours, 1, 1e15) / utilization(same, row.full, 1, 1e15);
    CHECK(std::abs((gain - 1) * 100 - row.gain) <= 0.05 + 100 * 0.005 * (1 + gain) / row.ours);
  }
}

TEST_CASE("published: selective recomputation costs 2.7 % more FLOPs at GPT-3 and 1.6 % at MT-NLG") {
  const GptShape gpt3{96, 12288}, mt_nlg{105, 20480};
  CHECK(prints(korthikanti_hardware_flops(gpt3, 1) / korthikanti_model_flops(gpt3, 1), 1.0269, 0.0001));
  CHECK(prints(korthikanti_hardware_flops(mt_nlg, 1) / korthikanti_model_flops(mt_nlg, 1), 1.0164, 0.0001));
}

TEST_CASE("published: PaLM 540B reached 46.2 % of 6144 TPU v4 at 238.3K tokens a second") {
  // Chowdhery et al. 2022, table 3 and appendix B: 6 N + 12 L H Q T with 118 layers, 48 heads of 256, T 2048.
  const double flops = 6 * 540.35e9 + 12.0 * 118 * 48 * 256 * 2048;
  CHECK(prints(100 * utilization(flops * 238.3e3, 1, 6144, 275e12), 46.2, 0.1));
}

TEST_CASE("published: bandwidths that ZeRO-Infinity needs at 70 TFLOPS (section 4)") {
  const double peak = 70e12;
  // Parameters and gradients: 70 GB/s for half of peak at batch 1; optimizer states: 1.5 TB/s for 90 % at
  // batch 2.
  CHECK(prints(100 * intensity_efficiency(intensity_of_parameters(1, 1024), 70e9, peak), 50.6, 0.1));
  CHECK(prints(100 * intensity_efficiency(intensity_of_optimizer(2, 1024), 1.5e12, peak), 91.6, 0.1));
  CHECK(prints(100 * intensity_efficiency(intensity_of_checkpoints(2048, 1), 2e9, peak), 58.4, 0.1));
  CHECK(prints(100 * intensity_efficiency(intensity_of_checkpoints(8192, 1), 3e9, peak), 89.4, 0.1));
}

TEST_CASE("published: ZeRO-Infinity's intensities are its FLOPs over the bytes that move") {
  const double layers = 128, hidden = 25600, batch = 2, sequence = 1024;
  const double parameters = infinity_parameters(layers, hidden);
  const double flops = infinity_step_flops(batch, sequence, parameters);
  CHECK(intensity_of_parameters(batch, sequence) == doctest::Approx(flops / (8 * parameters)));
  CHECK(intensity_of_optimizer(batch, sequence) == doctest::Approx(flops / (2 * 16 * parameters)));
  // Checkpoints go out and come back.
  for (const double ci : {1., 4.}) {
    const double bytes = 2 * infinity_checkpoints({batch, sequence, hidden, 256}, layers, ci);
    CHECK(intensity_of_checkpoints(hidden, ci) == doctest::Approx(flops / bytes));
  }
  // Checkpoints of GPT-2 or larger are worth 10K FLOPs a byte and more (ZeRO paper, section 4.2.1).
  CHECK(intensity_of_checkpoints(1600, 1) > 1e4);
  CHECK(partitioned_bandwidth(16, 3e9) == 48e9);
}

}  // namespace
}  // namespace zt::plan
