#!/usr/bin/env python3
"""Planned step times beside measured ones: twelve recipes on 1, 2 and 4 ranks of this machine.

Usage: bench/plan_accuracy.py [--calibrate-first] [--ranks 1,2,4] [--rounds 2] [--only NAME] [--zerotrain PATH]

Every recipe trains some steps on English text under mpirun (alone for one rank); the median of step_seconds over all
rounds stands beside `zerotrain plan --json`. With --calibrate-first, `zerotrain doctor --calibrate` measures the
machine for each number of ranks right before that number's runs. Prints a Markdown table for bench/records/; exits
with 1 when a time is off by more than --limit. The machine should do nothing else: what other programs disturbed by more
than --disturbance of the cores is done again, as often as --tries; then the least disturbed try counts.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent


def gpt2(width, layers, heads, vocab=264):
    return {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": vocab}


def llama(width, layers, heads, kv, inner, vocab=264):
    return {"model_type": "llama", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv, "intermediate_size": inner, "vocab_size": vocab, "tie_word_embeddings": True}


# name, config, length, micro-batch, micro-batches a step, stage, dtype, recompute
RECIPES = [
    ("gpt2-96", gpt2(96, 4, 4), 128, 8, 1, 0, "float32", "none"),
    ("gpt2-128-full", gpt2(128, 6, 4), 256, 4, 2, 1, "float32", "full"),
    ("gpt2-320-bf16", gpt2(320, 6, 5), 256, 4, 1, 2, "bfloat16", "none"),
    ("gpt2-384-selective", gpt2(384, 4, 6), 256, 2, 1, 3, "float32", "selective"),
    ("gpt2-512-vocab", gpt2(512, 4, 8, 16384), 512, 1, 1, 1, "float32", "none"),
    ("gpt2-768-bf16", gpt2(768, 4, 12, 50257), 256, 1, 2, 3, "bfloat16", "full"),
    ("llama-128", llama(128, 4, 4, 2, 344), 128, 8, 1, 3, "float32", "none"),
    ("llama-288-vocab", llama(288, 6, 6, 6, 768, 32000), 256, 2, 2, 2, "float32", "none"),
    ("llama-384-bf16", llama(384, 6, 6, 2, 1024), 512, 2, 1, 1, "bfloat16", "full"),
    ("llama-512-bf16", llama(512, 8, 8, 4, 1376, 4096), 512, 1, 4, 3, "bfloat16", "none"),
    ("llama-256-long", llama(256, 4, 4, 4, 688), 1024, 1, 1, 0, "bfloat16", "selective"),
    ("llama-768", llama(768, 3, 12, 4, 2048), 256, 4, 1, 2, "float32", "selective"),
]
WARM = 3  # steps


def recipe_of(entry, ranks, text, steps):
    name, config, length, micro, micros, stage, dtype, recompute = entry
    positions = "n_positions" if config["model_type"] == "gpt2" else "max_position_embeddings"
    return {
        "run": {"name": name, "seed": 1},
        "model": {"config": {**config, positions: length}, "dtype": dtype},
        "tokenizer": {"type": "byte"},
        "data": {"sequence_length": length, "train": [{"path": str(text)}]},
        "train": {"max_steps": steps, "micro_batch_size": micro, "global_batch_size": micro * micros * ranks},
        "optimizer": {"learning_rate": 1e-4},
        "memory": {"recompute": recompute},
        "zero": {"stage": stage},
        "checkpoint": {"export": "never"},
        "logging": {"progress": "none"},
    }


def busy_seconds():
    """Of all cores since the machine began."""
    user, nice, system, idle, iowait, irq, softirq, *_ = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bench:
    def __init__(self, options, folder):
        self.o = options
        self.folder = folder
        self.cluster = options.cluster or folder / "cluster.yaml"
        self.env = {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }

    def call(self, ranks, *arguments):
        launcher = [self.o.mpiexec, "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launcher, self.o.zerotrain, *map(str, arguments)], env=self.env, cwd=self.folder,
                              capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))} on {ranks} ranks failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def undisturbed(self, what, work):
        """What `work` gives in a try during which other programs left the cores alone, or in the best of all tries."""
        best = None
        for _ in range(self.o.tries):
            start, busy, children = time.monotonic(), busy_seconds(), child_seconds()
            result = work()
            others = busy_seconds() - busy - (child_seconds() - children)
            share = max(0, others) / (time.monotonic() - start) / os.cpu_count()
            if best is None or share < best[0]:
                best = share, result
            if share <= self.o.disturbance:
                break
            print(f"{what}: other programs took {share:.0%} of the cores", file=sys.stderr, flush=True)
        return best[1]

    def calibrate(self, ranks):
        alone = ["--ranks", "1"] if ranks == 1 else []

        def measure():
            self.call(ranks, "doctor", "--calibrate", "--to", self.cluster, *alone)
            return self.cluster.read_text()

        self.cluster.write_text(self.undisturbed(f"calibrating {ranks}", measure))

    def write(self, entry, ranks):
        path = self.folder / f"{entry[0]}-{ranks}.yaml"
        path.write_text(json.dumps(recipe_of(entry, ranks, self.o.text.resolve(), self.o.steps + WARM)))
        return path

    def planned(self, recipe, ranks):
        out = self.call(1, "plan", "--recipe", recipe, "--ranks", ranks, "--device", self.cluster, "--json")
        return json.loads(out)["time"]["step_seconds"]

    def measured(self, recipe, ranks):
        """Seconds of each step but the first ones."""
        return self.undisturbed(recipe.stem, lambda: self.train(recipe, ranks))

    def train(self, recipe, ranks):
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        self.call(ranks, "--recipe", recipe, "--set", f"run.output_dir={run}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line["step_seconds"] for line in lines if line.get("step", 0) > WARM and "step_seconds" in line]


def table(results, limit):
    worst = 0
    print("| recipe | stage | dtype | recompute | micro-batches | ranks | measured ms | planned ms | off by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for entry, ranks, seconds, planned in results:
        name, _, length, micro, micros, stage, dtype, recompute = entry
        measured = statistics.median(seconds)
        off = planned / measured - 1
        worst = max(worst, abs(off))
        print(f"| {name} | {stage} | {dtype} | {recompute} | {micros} x {micro} x {length} | {ranks} "
              f"| {measured * 1e3:.1f} | {planned * 1e3:.1f} | {off:+.1%}{' **' if abs(off) > limit else ''} |")
    offs = [abs(planned / statistics.median(seconds) - 1) for *_, seconds, planned in results]
    print(f"\n{len(offs)} cases: median error {statistics.median(offs):.1%}, largest {worst:.1%}, "
          f"{sum(o <= limit for o in offs)} within {limit:.0%}")
    return worst <= limit


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zerotrain", default=os.environ.get("ZEROTRAIN_BINARY", str(PROJECT / "build/release/zerotrain")))
    p.add_argument("--mpiexec", default="mpirun")
    p.add_argument("--text", type=pathlib.Path, default=PROJECT / "build/quickstart/devils-dictionary.txt")
    p.add_argument("--cluster", type=pathlib.Path, help="the cluster file; needed without --calibrate-first")
    p.add_argument("--calibrate-first", action="store_true")
    p.add_argument("--ranks", default="1,2,4")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--only", default="", help="recipes whose name contains this")
    p.add_argument("--disturbance", type=float, default=0.05)
    p.add_argument("--tries", type=int, default=3)
    p.add_argument("--limit", type=float, default=0.15)
    o = p.parse_args()
    if not o.text.exists():
        sys.exit(f"{o.text} is not there: --text names an English text; scripts/run makes this one")
    if not o.cluster and not o.calibrate_first:
        sys.exit("--cluster names the calibration, or --calibrate-first makes one")
    if o.cluster:
        o.cluster = o.cluster.resolve()
    o.zerotrain = str(pathlib.Path(o.zerotrain).resolve())
    entries = [e for e in RECIPES if o.only in e[0]]
    results = []
    with tempfile.TemporaryDirectory(prefix="plan-accuracy-") as folder:
        bench = Bench(o, pathlib.Path(folder))
        for ranks in map(int, o.ranks.split(",")):
            if o.calibrate_first:
                print(f"calibrating {ranks}", file=sys.stderr, flush=True)
                bench.calibrate(ranks)
            seconds = {e[0]: [] for e in entries}
            for number in range(o.rounds):
                for entry in entries:
                    print(f"{ranks} ranks, round {number + 1}: {entry[0]}", file=sys.stderr, flush=True)
                    seconds[entry[0]] += bench.measured(bench.write(entry, ranks), ranks)
            for entry in entries:
                results.append((entry, ranks, seconds[entry[0]], bench.planned(bench.write(entry, ranks), ranks)))
    sys.exit(0 if table(results, o.limit) else 1)


if __name__ == "__main__":
    main()
