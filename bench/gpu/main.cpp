// What one GPU does: ceilings of products and copies, each kernel beside its floor, attention by length, and training steps.
//
// Usage: gpu [--what all|ceilings|kernels|attention|steps|plans] [--model NAME] [--attention PATH] [--peak TFLOPS] [--tiny yes]
//   --what      ceilings are measured before each of the others; plans: bytes that the steps will claim, without a GPU
//   --model     gpt2-124m, llama-1b, llama-8b or qwen2.5-7b instead of all four
//   --attention best, or any_gpu: the kernels that every GPU runs; plain: without tensor cores
//   --peak      dense bf16 TFLOP/s by the GPU's data sheet, for those whose name isn't known here
//   --tiny yes  shapes for an emulated GPU: proves that every measurement works, measures nothing
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdio>

#include "base/text.h"
#include "common.h"
#include "device/stream.h"
#include "gpu.h"
#include "kernels/attention_path.h"

namespace zt::bench {
namespace {

kernels::AttentionPath attention_path(const std::string& name) {
  using kernels::AttentionPath;
  if (name == "best") return AttentionPath::best;
  if (name == "any_gpu") return AttentionPath::any_gpu;
  if (name == "plain") return AttentionPath::plain;
  throw Error(Blame::usage, cat("no kernels of attention are called ", name),
              "--attention takes best, any_gpu or plain");
}

void require_part(const std::string& what) {
  for (const char* const part : {"all", "ceilings", "kernels", "attention", "steps", "plans"})
    if (what == part) return;
  throw Error(Blame::usage, cat("nothing is called ", what),
              "--what takes all, ceilings, kernels, attention, steps or plans");
}

// Dense bf16 TFLOP/s by NVIDIA's data sheets.
double data_sheet_peak(const std::string& name) {
  const std::pair<const char*, double> known[] = {{"H200", 989.4}, {"H100 PCIe", 756}, {"H100 NVL", 835},
                                                  {"H100", 989.4}, {"A100", 312},      {"B200", 2250},
                                                  {"L40S", 362},   {"B300", 2250}};
  for (const auto& [part, peak] : known)
    if (name.find(part) != std::string::npos) return peak * 1e12;
  return 0;
}

void print_machine(const Gpu& gpu, const std::string& name, double peak) {
  int runtime = 0, driver = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "cannot ask for CUDA's version");
  cuda::check(cudaDriverGetVersion(&driver), "cannot ask for the driver's version");
  fmt::print("{}, CUDA {}, driver for CUDA {}, cuBLASLt {}, data sheet {}\n", name, runtime, driver,
             cublasLtGetVersion(), peak > 0 ? fmt::format("{:.1f} TFLOP/s", tera(peak)) : "unknown (--peak)");
  if (gpu.tiny()) fmt::print("--tiny: the numbers below mean nothing\n");
}

int run(const Arguments& a) {
  const std::string what = a.text("--what", "all"), model = a.text("--model", "");
  require_part(what);
  kernels::set_attention_path(attention_path(a.text("--attention", "best")));
  if (what == "plans") return print_plans(model), 0;
  Gpu gpu(a.text("--tiny", "no") == "yes");
  const std::string name = gpu.device().name();
  const double asked = double(a.number("--peak", 0)) * 1e12;
  const double peak = asked > 0 ? asked : data_sheet_peak(name);
  const auto wanted = [&](const char* part) { return what == "all" || what == part; };
  print_machine(gpu, name, peak);
  const Ceilings ceilings = measure_ceilings(gpu);
  if (wanted("kernels")) measure_kernels(gpu, ceilings);
  if (wanted("attention")) measure_attention(gpu, ceilings);
  if (wanted("steps")) measure_steps(gpu, ceilings, peak, model);
  return 0;
}

}  // namespace
}  // namespace zt::bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return zt::bench::told(argc, argv, zt::bench::run);
}
