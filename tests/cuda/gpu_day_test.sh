#!/usr/bin/env bash
# scripts/gpu_day.sh beside programs that only pretend: what is recorded where all goes well, where a test fails, where nothing
# ends in time, and by a second run. Usage: gpu_day_test.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin" "$place/scripts" "$place/bench/records" "$place/build/gpu_day/tests" "$place/build/gpu_day/bench"
cp "$source_dir/scripts/gpu_day.sh" "$place/scripts/"
cat >"$place/bin/nvidia-smi" <<'SMI'
#!/usr/bin/env bash
[[ "$*" == *--loop* ]] && exec sleep 100
[[ "$*" == *query-gpu=ecc* ]] && exit 2
[[ "$*" == *query-gpu=name* ]] && echo "NVIDIA Pretended" || echo "9.0"
SMI
cat >"$place/bin/pretended" <<'PROGRAM'
#!/usr/bin/env bash
echo "$(basename "$0") $*"
[[ -z ${FAILS:-} || "$0" != *"$FAILS" ]] || exit 3
[[ -z ${HANGS:-} || "$*" != *"$HANGS"* ]] || sleep 100
PROGRAM
chmod +x "$place"/bin/*
for program in tests/{emulated_ptx_conformance,emulated_ptx_matrices,cuda_kernels,cuda_step,cuda_bench_tiny,cuda_attention} bench/gpu; do
  ln -s "$place/bin/pretended" "$place/build/gpu_day/$program"
done
export PATH=$place/bin:$PATH
unset CUDA_VISIBLE_DEVICES
day() { status=0 && "$place/scripts/gpu_day.sh" --built "$@" >"$place/said" 2>&1 || status=$?; }
wrong() { echo "wrong: $1" && cat "$place/said" && exit 1; }

day --name one tests bench-ceilings
record=$(echo "$place"/bench/records/*-gpu-one)
[[ $status == 0 && $(grep -c '^ok' "$record/summary.txt") == 2 ]] || wrong "a run where all goes well"
[[ $(cat "$record/bench-ceilings.log") == "gpu --what ceilings" && -e $record/clocks-bench-ceilings.csv ]] || wrong "its log"
grep -q '^gpu: *NVIDIA Pretended' "$record/machine.txt" || wrong "machine.txt"
grep -q 'ECC unknown' "$record/machine.txt" || wrong "what nvidia-smi doesn't know"

FAILS=cuda_attention day --name one tests bench-attention
[[ $status == 1 && $(grep -c '^FAILED.*tests: status 1' "$record/summary.txt") == 1 ]] || wrong "a test that fails"
grep -q -- '--attention any_gpu' "$record/bench-attention.log" || wrong "what is measured where tests of attention fail"
[[ $(grep -c '^ok' "$record/summary.txt") == 3 ]] || wrong "named steps go on in the newest record"

HANGS=kernels day --name two bench-kernels &
until [[ -s $(echo "$place"/bench/records/*-gpu-two/bench-kernels.log) ]]; do sleep 0.1; done
kill -TERM "$(pgrep -P $! -f gpu_day.sh | head -1)"
wait
grep -q '^STOPPED.*during bench-kernels' "$place"/bench/records/*-gpu-two/summary.txt || wrong "a run that is interrupted"
grep -q '^gpu --what kernels' "$place"/bench/records/*-gpu-two/bench-kernels.log || wrong "what it had said by then"

mv "$place/build" "$place/elsewhere"
day --name three
[[ $status == 1 && $(grep -c '^nothing is built' "$place"/bench/records/*-gpu-three/summary.txt) == 1 ]] || wrong "nothing built"

day --name two bench-nothing
[[ $status == 2 ]] || wrong "a step that there isn't"
CUDA_VISIBLE_DEVICES='' day
[[ $status == 7 && $(grep -c 'hides all GPUs' "$place/said") == 1 ]] || wrong "no GPU that may be used"
