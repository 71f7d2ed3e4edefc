#!/usr/bin/env bash
# Everything that only a GPU can tell, in one run of an hour, kept as a record. For a machine with one NVIDIA GPU and CUDA 13.0.
#
# Usage: scripts/gpu_day.sh [--name NAME] [--minutes N] [--built] [STEP...]
#   --name     what the record is called; default: the GPU's own name
#   --minutes  how long all of it may take; default: 60
#   --built    builds nothing: build/gpu_day and build/gpu_day_emulated are there, perhaps made on another machine
#   STEP...    these alone, into the newest record of that name: more of an earlier run, or what failed there once more
#
# Steps, in the order in which they are worth most; each has a limit of its own:
#   build                 the preset `cuda` against the real libraries (ZEROTRAIN_ON_GPU)
#   tests                 the CUDA backend's tests on the GPU
#   bench-tiny            the benchmark's tiny shapes: whether every measurement works
#   bench-ceilings        products and copies at most
#   bench-kernels         each kernel beside its floor
#   bench-attention       by length, by the best kernels; bench-attention-any_gpu: by those that every GPU runs
#   bench-steps           training steps, a model a run: gpt2-124m, llama-1b, llama-8b, qwen2.5-7b
#   train                 a small model by the program itself, on the GPU and on the processor
#   sanitizer             small cases under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
#   conformance           what the conformance kernels give here, bit by bit beside the emulated GPU's
#
# All output goes to bench/records/<date>-gpu-<name>/ (a second run of a day: ...-2): machine.txt (driver, clocks, versions,
# commit), a log a step, clocks-*.csv, and summary.txt, with a line a step. A step that fails or takes too long is told there
# and stops no other; what it had said by then is kept. Where the tests of attention fail, the steps after them take the kernels
# that every GPU runs.
# Exit status: 0; 1 where a step failed, took too long or found no time; 2 where the options are wrong; 7 where there is no GPU,
# no driver or no CUDA 13.0.
# Times that mean something need a GPU that nobody else uses.
# shellcheck disable=SC2317  # functions are called by `step`
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

unfit() { echo "error: $1" >&2; exit 7; }
misused() { echo "error: $1; see the head of scripts/gpu_day.sh" >&2; exit 2; }
# What nvidia-smi says of the first GPU; "unknown" where it knows no such thing.
gpu() {
  local said
  if said=$(timeout 30 nvidia-smi --id="$index" --query-gpu="$1" --format=csv,noheader 2>/dev/null); then echo "$said"; else echo unknown; fi
}

known=(build tests bench-tiny bench-ceilings bench-kernels bench-attention bench-steps train sanitizer conformance)
name='' minutes=60 built=no chosen=()
while (($# > 0)); do
  case $1 in
    --name | --minutes)
      (($# > 1)) || misused "$1 needs a value"
      if [[ $1 == --name ]]; then name=$2; else minutes=$2; fi
      shift 2
      ;;
    --built) built=yes && shift ;;
    -h | --help) sed -n '2,/^# Times/s/^# \{0,1\}//p' scripts/gpu_day.sh && exit 0 ;;
    -*) misused "no option $1" ;;
    *) [[ " ${known[*]} " == *" $1 "* ]] || misused "no step $1: ${known[*]}"
       chosen+=("$1") && shift ;;
  esac
done
[[ $minutes =~ ^[1-9][0-9]*$ ]] || misused "--minutes needs a number, not '$minutes'"
[[ $name =~ ^[A-Za-z0-9._-]*$ ]] || misused "a name is letters, digits, '.', '_' and '-', not '$name'"

command -v nvidia-smi >/dev/null ||
  unfit "no GPU here: nvidia-smi is not installed, so neither is NVIDIA's driver. The tests without a GPU: scripts/test_cuda"
# CUDA's first GPU is nvidia-smi's of that number where both count by place.
[[ ${CUDA_VISIBLE_DEVICES-0} =~ ^[^,-] ]] || unfit "CUDA_VISIBLE_DEVICES hides all GPUs"
export CUDA_DEVICE_ORDER=PCI_BUS_ID
index=${CUDA_VISIBLE_DEVICES-0} index=${index%%,*}
gpu_name=$(timeout 30 nvidia-smi --id="$index" --query-gpu=name --format=csv,noheader 2>&1) ||
  unfit "no GPU here: nvidia-smi says: $gpu_name. The tests without a GPU: scripts/test_cuda"
export CUDACXX=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [[ $built == no ]]; then
  [[ -x $CUDACXX ]] || unfit "no nvcc in PATH or /usr/local/cuda/bin; install the CUDA 13.0 toolkit, or name it in CUDACXX"
  "$CUDACXX" --version | grep -q 'release 13\.0' || unfit "$CUDACXX is not of CUDA 13.0: $("$CUDACXX" --version | tail -2 | head -1)"
fi

real=build/gpu_day emulated=build/gpu_day_emulated
# Instructions of one architecture alone (wgmma) need its full name.
case $(gpu compute_cap) in
  8.0) arch=sm_80 ;;
  9.0) arch=sm_90a ;;
  10.0) arch=sm_100 ;;
  *) arch=native ;;
esac
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo "$(dirname "$CUDACXX")/compute-sanitizer")}
# One process, one GPU.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ZEROTRAIN_SOURCE_DIR=$PWD
failed=0 attention=best running='' group=''

# The folder of this run's record: a new one, or for named steps the newest there is.
base=$PWD/bench/records/$(date +%F)-gpu-${name:-$(tr -cs 'A-Za-z0-9\n' - <<<"$gpu_name")}
record=$base number=1 newest=''
while [[ -e $record ]]; do
  newest=$record
  ((number++))
  record=$base-$number
done
((${#chosen[@]} == 0)) || record=${newest:-$record}
mkdir -p "$record" || exit 1

say() { tee -a "$record/summary.txt" >&2; }
# Also of an interrupted run the record tells how far it came.
interrupted() {
  trap - INT TERM HUP
  [[ -z $group ]] || kill -TERM -- "-$group" 2>/dev/null
  printf 'STOPPED %5d s  during %s, by a signal\n' "$SECONDS" "${running:-nothing}" | say
  exit 1
}
trap interrupted INT TERM HUP

wanted() { ((${#chosen[@]} == 0)) || [[ " ${chosen[*]} " == *" $1 "* ]]; }

# step TITLE MINUTES COMMAND...: its output goes to TITLE.log, its outcome into the summary.
step() {
  local title=$1 limit=$((60 * $2)) begin=$SECONDS status=0 left=$((60 * minutes - SECONDS))
  shift 2
  if ((left < 20)); then
    printf 'no time          %s\n' "$title" | say
    failed=1
    return 1
  fi
  ((limit < left)) || limit=$left
  echo "== $title, at most $limit s" >&2
  running=$title
  limited "$limit" "$@" >"$record/$title.log" 2>&1 || status=$?
  running=''
  if ((status == 0)); then
    printf 'ok      %5d s  %s\n' $((SECONDS - begin)) "$title"
  elif ((status == 124)); then
    printf 'TOO LONG %4d s  %s: ended, %s\n' $((SECONDS - begin)) "$title" "$title.log"
  else
    printf 'FAILED  %5d s  %s: status %d, %s\n' $((SECONDS - begin)) "$title" "$status" "$title.log"
  fi | say
  ((status == 0)) || failed=1
  return "$status"
}
# limited SECONDS COMMAND...: also functions; 124 where it took longer. What it starts is in a process group of its own, which
# can be ended as a whole.
limited() {
  local limit=$1 begin=$SECONDS status=0
  shift
  set -m
  ("$@") </dev/null &
  group=$!
  set +m
  while kill -0 "$group" 2>/dev/null && ((SECONDS - begin < limit)); do sleep 0.5; done
  if kill -0 "$group" 2>/dev/null; then
    status=124
    kill -TERM -- "-$group" && sleep 3
    kill -KILL -- "-$group" 2>/dev/null
    wait "$group" 2>/dev/null
  else
    wait "$group" || status=$?
  fi
  group=''
  return "$status"
}
skip() { printf 'skipped          %s: %s\n' "$1" "$2" | say; }

machine() {
  echo "command:  scripts/gpu_day.sh --name ${name:-$gpu_name} --minutes $minutes ${chosen[*]:-}"
  echo "commit:   $(git rev-parse HEAD 2>/dev/null || echo unknown); $(git status --porcelain 2>/dev/null | grep -vc '^??') files changed since"
  echo "date:     $(date -u +%FT%TZ)"
  echo "machine:  $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $(sed -n 's/MemTotal: *//p' /proc/meminfo), Linux $(uname -r)"
  echo "gpu:      $gpu_name, compute capability $(gpu compute_cap), memory $(gpu memory.total), power limit $(gpu power.limit)"
  echo "driver:   $(gpu driver_version), persistence $(gpu persistence_mode), ECC $(gpu ecc.mode.current), MIG $(gpu mig.mode.current)"
  echo "clocks:   now $(gpu clocks.sm) SM, $(gpu clocks.mem) memory; at most $(gpu clocks.max.sm) SM, $(gpu clocks.max.mem) memory; why not more: $(gpu clocks_event_reasons.active)"
  echo "load:     GPU $(gpu utilization.gpu), $(gpu memory.used), $(gpu temperature.gpu) C; processor $(cut -d' ' -f1-3 /proc/loadavg)"
  echo "build:    $("$CUDACXX" --version 2>/dev/null | tail -1); $(c++ --version 2>/dev/null | head -1); preset cuda, Release"
  echo "versions: $(cmake --version 2>/dev/null | head -1); $(sed -n 's/#define NCCL_VERSION_CODE */NCCL /p' /usr/include/nccl.h /usr/local/cuda/include/nccl.h 2>/dev/null | head -1); $("$sanitizer" --version 2>/dev/null | tail -1)"
  timeout 60 nvidia-smi -q -i "$index"
}

build() {  # build FOLDER OPTIONS... -- TARGETS...
  local folder=$1 options=() launcher=()
  shift
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER= -DCMAKE_CUDA_COMPILER_LAUNCHER=)
  cmake --preset cuda -B "$folder" "${launcher[@]}" "${options[@]}" &&
    cmake --build "$folder" -j "$jobs" --target "$@" -- -k 0
}
build_real() {
  build "$real" -DZEROTRAIN_ON_GPU=ON -DZEROTRAIN_GPU_ARCH="$arch" -DZEROTRAIN_BENCH=ON -- \
    emulated_ptx_conformance emulated_ptx_matrices cuda_kernels cuda_attention cuda_step cuda_bench_tiny bench_gpu zerotrain zerotrain_cuda
}
build_emulated() {
  build "$emulated" -DZEROTRAIN_ON_GPU=OFF -DZEROTRAIN_BENCH=OFF -- emulated_ptx_conformance emulated_ptx_matrices
}

# What is quick first. Whether attention can be relied on is remembered for what is measured.
tests() {
  local test status=0 options good
  for test in emulated_ptx_conformance emulated_ptx_matrices cuda_bench_tiny cuda_kernels cuda_step cuda_attention; do
    options=() good=yes
    [[ $test == cuda_bench_tiny ]] && options=(--tiny yes)
    echo "== $test"
    timeout --foreground -k 5 200 "$real/tests/$test" "${options[@]}" || { echo "== $test: status $?" && status=1 good=no; }
    [[ $test == cuda_attention ]] && echo "$good" >"$real/attention_is_sound"
  done
  return "$status"
}

conformance_of() {  # conformance_of FOLDER FILE: both programs' outputs on that build's GPU
  local status=0
  rm -f "$2"
  ZEROTRAIN_CONFORMANCE=$2 "$1/tests/emulated_ptx_conformance" || status=1
  ZEROTRAIN_CONFORMANCE=$2 "$1/tests/emulated_ptx_matrices" || status=1
  return "$status"
}
keep_conformance() {
  conformance_of "$real" "$PWD/$real/conformance.txt"
  local status=$?
  [[ -e $real/conformance.txt ]] && gzip -9nc "$real/conformance.txt" >"$record/conformance-gpu.txt.gz"
  return "$status"
}

# The cases that are small enough to be watched: one row of each kernel, attention, a whole step.
sanitized() {  # sanitized TOOL
  local tool=$1 status=0 options=(--error-exitcode 9 --kill no --print-limit 50)
  [[ $tool == memcheck ]] && options+=(--leak-check no)
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/emulated_ptx_conformance" || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_bench_tiny" --tiny yes || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_kernels" \
    -tc='cuda norms:*agree*,cuda elementwise:*,cuda add:*,cuda adamw*,cuda embedding:*,cuda cross entropy:*' || status=1
  "$sanitizer" --tool "$tool" "${options[@]}" "$real/tests/cuda_attention" -tc='cuda attention: * agree*' || status=1
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

# measured TITLE OPTIONS...: the benchmark, with clocks and power while it runs.
measured() {
  local watcher status=0 title=$1
  shift
  nvidia-smi --id="$index" --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used,clocks_event_reasons.active \
    --format=csv --loop-ms=1000 >"$record/clocks-$title.csv" 2>&1 &
  watcher=$!
  "$real/bench/gpu" "$@" || status=$?
  kill "$watcher" 2>/dev/null && wait "$watcher" 2>/dev/null
  return "$status"
}
bench() {  # bench TITLE MINUTES OPTIONS...
  step "$1" "$2" measured "$1" "${@:3}"
}

machine >>"$record/machine.txt" 2>&1
if wanted build && [[ $built == no ]]; then
  step build 25 build_real || { echo "its end:" && tail -n 15 "$record/build.log"; } >&2
fi
# What was built runs, whatever else was not.
if [[ ! -x $real/bench/gpu && ! -x $real/tests/cuda_kernels ]]; then
  echo "nothing is built in $real: no other step can be done. scripts/setup installs what the build needs, but for CUDA and NCCL" | say
  exit 1
fi
if wanted tests; then step tests 12 tests; fi
# Of all that is measured only attention has a second choice.
if wanted bench-attention || wanted bench-steps; then
  if [[ $(cat "$real/attention_is_sound" 2>/dev/null) == no ]]; then
    attention=any_gpu
    echo "tests of attention have failed: the kernels that every GPU runs are measured" | say
  fi
fi
if wanted bench-tiny; then step bench-tiny 2 "$real/tests/cuda_bench_tiny" --tiny yes; fi
if wanted bench-ceilings; then bench bench-ceilings 3 --what ceilings; fi
if wanted bench-kernels; then bench bench-kernels 6 --what kernels; fi
if wanted bench-attention; then
  bench bench-attention 6 --what attention --attention "$attention"
  [[ $attention == any_gpu ]] || bench bench-attention-any_gpu 6 --what attention --attention any_gpu
fi
if wanted bench-steps; then
  for model in gpt2-124m llama-1b llama-8b qwen2.5-7b; do
    bench "bench-steps-$model" 5 --what steps --model "$model" --attention "$attention"
  done
fi
if wanted train; then step train 4 train; fi
if wanted sanitizer; then
  if [[ -x $sanitizer ]]; then
    for tool in memcheck racecheck synccheck initcheck; do step "sanitizer-$tool" 6 sanitized "$tool"; done
  else
    skip sanitizer "no compute-sanitizer in PATH or beside $CUDACXX; name it in COMPUTE_SANITIZER"
  fi
fi
if wanted conformance; then
  step conformance-gpu 3 keep_conformance
  [[ $built == yes ]] || step build-emulated 10 build_emulated
  step conformance-emulated 3 conformance_of "$emulated" "$PWD/$emulated/conformance.txt"
  step conformance-compared 1 scripts/compare_conformance.py "$emulated/conformance.txt" "$real/conformance.txt"
fi
printf 'done    %5d s\n' "$SECONDS" | say
echo "record: $record" >&2
exit $failed
