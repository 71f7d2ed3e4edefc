#!/usr/bin/env bash
# Everything that only a GPU can tell, in one run, kept as a record. For a machine with one NVIDIA GPU and CUDA 13.0.
#
# Usage: scripts/gpu_day.sh [NAME]        NAME: what the record is called; default: the GPU's own name
#
#   1. builds the preset `cuda` against the real libraries (ZEROTRAIN_ON_GPU), and the conformance cases for the emulated GPU
#   2. runs the tests of the CUDA backend on the GPU
#   3. runs small cases of them under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
#   4. compares what the conformance kernels give on the emulated GPU and on this one
#   5. trains a small model with the program itself, on the GPU and on the processor
#   6. measures: bench/gpu, the tiny shapes first, then each part
#
# All output goes to bench/records/<date>-gpu-<name>/: machine.txt (driver, clocks, versions, commit), a log a step, and
# summary.txt, with a line a step. A step that fails is told there and stops no other.
# Exit status: 0; 1 where a step failed; 7 where there is no GPU, no driver or no CUDA 13.0.
# Times that mean something need a GPU that nobody else uses. About two hours, most of it building (bench/gpu: half an hour).
# shellcheck disable=SC2317  # functions are called by `step`
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

unfit() { echo "error: $1" >&2; exit 7; }
# What nvidia-smi says of the first GPU.
gpu() { nvidia-smi --id=0 --query-gpu="$1" --format=csv,noheader; }

command -v nvidia-smi >/dev/null ||
  unfit "no GPU here: nvidia-smi is not installed, so neither is NVIDIA's driver. The tests without a GPU: scripts/test_cuda"
gpu_name=$(gpu name 2>&1) || unfit "no GPU here: nvidia-smi says: $gpu_name. The tests without a GPU: scripts/test_cuda"
export CUDACXX=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[[ -x $CUDACXX ]] || unfit "no nvcc in PATH or /usr/local/cuda/bin; install the CUDA 13.0 toolkit, or name it in CUDACXX"
"$CUDACXX" --version | grep -q 'release 13\.0' || unfit "$CUDACXX is not of CUDA 13.0: $("$CUDACXX" --version | tail -2 | head -1)"

name=${1:-$(tr -cs 'A-Za-z0-9\n' - <<<"$gpu_name")}
record=$PWD/bench/records/$(date +%F)-gpu-$name
mkdir -p "$record" || exit 1
real=build/gpu_day emulated=build/gpu_day_emulated
# Instructions of one architecture alone (wgmma) need its full name.
case $(gpu compute_cap) in
  9.0) arch=sm_90a ;;
  10.0) arch=sm_100 ;;
  *) arch=native ;;
esac
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo "$(dirname "$CUDACXX")/compute-sanitizer")}
# One process, one GPU.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ZEROTRAIN_SOURCE_DIR=$PWD
failed=0
: >"$record/summary.txt"

# step NAME COMMAND...: its output goes to NAME.log, its outcome into the summary.
step() {
  local title=$1 begin=$SECONDS status=0
  shift
  echo "== $title" >&2
  "$@" >"$record/$title.log" 2>&1 || status=$?
  if ((status == 0)); then
    printf 'ok      %5d s  %s\n' $((SECONDS - begin)) "$title"
  else
    printf 'FAILED  %5d s  %s: status %d, %s\n' $((SECONDS - begin)) "$title" "$status" "$title.log"
  fi | tee -a "$record/summary.txt" >&2
  ((status == 0)) || failed=1
}
skip() { printf 'skipped          %s: %s\n' "$1" "$2" | tee -a "$record/summary.txt" >&2; }

machine() {
  echo "command:  scripts/gpu_day.sh $name"
  echo "commit:   $(git rev-parse HEAD 2>/dev/null || echo unknown); $(git status --porcelain 2>/dev/null | grep -vc '^??') files changed since"
  echo "date:     $(date -u +%FT%TZ)"
  echo "machine:  $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $(sed -n 's/MemTotal: *//p' /proc/meminfo), Linux $(uname -r)"
  echo "gpu:      $gpu_name, compute capability $(gpu compute_cap), memory $(gpu memory.total), power limit $(gpu power.limit)"
  echo "driver:   $(gpu driver_version), persistence $(gpu persistence_mode)"
  echo "clocks:   now $(gpu clocks.sm) SM, $(gpu clocks.mem) memory; at most $(gpu clocks.max.sm) SM, $(gpu clocks.max.mem) memory; why not more: $(gpu clocks_event_reasons.active)"
  echo "load:     GPU $(gpu utilization.gpu), $(gpu temperature.gpu) C; processor $(cut -d' ' -f1-3 /proc/loadavg)"
  echo "build:    $("$CUDACXX" --version | tail -1); $(c++ --version | head -1); preset cuda, Release"
  echo "versions: $(cmake --version | head -1); $(sed -n 's/#define NCCL_VERSION_CODE */NCCL /p' /usr/include/nccl.h 2>/dev/null); $("$sanitizer" --version 2>/dev/null | tail -1)"
  nvidia-smi -q -i 0
}

build() {  # build FOLDER OPTIONS... -- TARGETS...
  local folder=$1 options=()
  shift
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  cmake --preset cuda -B "$folder" "${options[@]}" && cmake --build "$folder" -j "$jobs" --target "$@" -- -k 0
}

conformance() {  # conformance FOLDER FILE: both programs' outputs on that build's GPU
  local status=0
  rm -f "$2"
  ZEROTRAIN_CONFORMANCE=$2 "$1/tests/emulated_ptx_conformance" || status=1
  ZEROTRAIN_CONFORMANCE=$2 "$1/tests/emulated_ptx_matrices" || status=1
  return "$status"
}

# The cases that are small enough to be watched: one row of each kernel, attention, a whole step.
sanitized() {  # sanitized TOOL
  local tool=$1 status=0 options=(--error-exitcode 9 --kill no --print-limit 50)
  [[ $tool == memcheck ]] && options+=(--leak-check no)
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/emulated_ptx_conformance" || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_kernels" \
    -tc='cuda norms:*agree*,cuda elementwise:*,cuda add:*,cuda adamw*,cuda embedding:*,cuda cross entropy:*' || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_attention" -tc='cuda attention: * agree*' || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_bench_tiny" --tiny yes || status=1
  return "$status"
}

# The last losses of the program's own runs on the two kinds of device, which may differ by rounding.
train() {
  local program=$PWD/$real/zerotrain folder=$PWD/$real/gpu_day_train device
  rm -rf "$folder" && mkdir -p "$folder" || return 1
  seq 1 2000 | sed 's/.*/line & of a text that counts its lines/' >"$folder/text.txt"
  cat >"$folder/recipe.yaml" <<'RECIPE'
run: {output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 2,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256}
tokenizer: {type: byte}
data: {sequence_length: 256, train: [{path: text.txt}]}
train: {max_steps: 50, micro_batch_size: 4, global_batch_size: 4}
optimizer: {learning_rate: 1e-3}
lr_schedule: {name: constant, warmup_steps: 2}
RECIPE
  for device in cuda cpu; do
    (cd "$folder" && "$program" --recipe recipe.yaml --set "run.device=$device" --set "run.output_dir=$device") || return 1
  done
  python3 - "$folder" <<'PYTHON'
import json, sys
def losses(device):
    rows = [json.loads(line) for line in open(f"{sys.argv[1]}/{device}/metrics.jsonl")]
    return [row["loss"] for row in rows if "loss" in row]
gpu, cpu = losses("cuda"), losses("cpu")
apart = [abs(a - b) / b for a, b in zip(gpu, cpu)]
# Steps amplify what rounding begins.
good = len(gpu) == len(cpu) == 50 and max(apart[:10]) < 1e-3 and max(apart) < 5e-2
print(f"{len(gpu)} losses on the GPU, {len(cpu)} on the processor, the last {gpu[-1]:.5f} and {cpu[-1]:.5f}; "
      f"largest relative difference {max(apart[:10]):.2e} in the first ten, {max(apart):.2e} in all")
sys.exit(not good)
PYTHON
}

# Clocks and power while something is measured.
measured() {
  local watcher status=0
  nvidia-smi --id=0 --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used \
    --format=csv --loop=5 >"$record/clocks-${1}.csv" 2>&1 &
  watcher=$!
  "$real/bench/gpu" --what "$1" || status=$?
  kill "$watcher" && wait "$watcher" 2>/dev/null
  return "$status"
}

machine >"$record/machine.txt" 2>&1
step build build "$real" -DZEROTRAIN_ON_GPU=ON -DZEROTRAIN_GPU_ARCH=$arch -DZEROTRAIN_BENCH=ON -- \
  cuda_kernels cuda_attention cuda_step cuda_bench_tiny emulated_ptx_conformance emulated_ptx_matrices bench_gpu zerotrain zerotrain_cuda
step build-emulated build "$emulated" -DZEROTRAIN_ON_GPU=OFF -DZEROTRAIN_BENCH=OFF -- emulated_ptx_conformance emulated_ptx_matrices
step tests ctest --test-dir "$real" -L emulated --output-on-failure --no-tests=error
if [[ -x $sanitizer ]]; then
  for tool in memcheck racecheck synccheck initcheck; do step "sanitizer-$tool" sanitized "$tool"; done
else
  skip sanitizer "no compute-sanitizer in PATH or beside $CUDACXX; name it in COMPUTE_SANITIZER"
fi
step conformance-emulated conformance "$emulated" "$PWD/$emulated/conformance.txt"
step conformance-gpu conformance "$real" "$PWD/$real/conformance.txt"
step conformance-compared scripts/compare_conformance.py "$emulated/conformance.txt" "$real/conformance.txt"
[[ -e $real/conformance.txt ]] && gzip -9nc "$real/conformance.txt" >"$record/conformance-gpu.txt.gz"
step train train
step bench-tiny "$real/tests/cuda_bench_tiny" --tiny yes
for part in kernels attention steps; do step "bench-$part" measured $part; done
echo "record: $record" >&2
exit $failed
