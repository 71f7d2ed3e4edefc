#!/usr/bin/env python3
"""Whether the tests notice each barrier, fence and wait of the CUDA backend that is taken away.

  scripts/cuda_mutations.py --build DIR [--only STEM ...] [--at-most N] [--scratch DIR] [--list]

DIR is a built folder (CMake with Ninja and -DZEROTRAIN_CUDA=ON); nothing in it is changed. For every place in
cuda/{kernels,device,comm} that orders something, one at a time, the sources are copied without that place, an object that
holds it is compiled for the emulated GPU, a test program is linked with it, and its cases for that kernel are run. They
must fail, by a finding or by a wrong value. Places are the calls of __syncthreads, __syncwarp, __threadfence and
cudaStreamWaitEvent, and of the functions here that wrap an instruction that orders (cp.async groups, mbarriers, fences,
wgmma groups, named barriers), which are found by that instruction. A header is tried in one of its objects (HOLDERS).

A place whose absence no test notices stands with its reason in scripts/cuda_mutations_equal.txt. The exit status is 1
if a place survives that does not stand there, if one stands there that is noticed or gone, or if something does not build.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUAL = ROOT / "scripts" / "cuda_mutations_equal.txt"
ROOMS = ["kernels", "device", "comm"]
LIBRARY = "cuda/CMakeFiles/zt_cuda_emulated.dir/"

# The object in which a header's places are tried.
HOLDERS = {
    "kernels/reduce.cuh": "kernels/norm.cu",
    "kernels/attention_backward.cuh": "kernels/attention_bf16_64.cu",
    "kernels/attention_forward.cuh": "kernels/attention_bf16_64.cu",
    "kernels/attention_mma.cuh": "kernels/attention_bf16_64.cu",
    "kernels/attention_warpgroup.cuh": "kernels/attention_warpgroup_bf16_64.cu",
    "kernels/attention_warpgroup_keys.cuh": "kernels/attention_warpgroup_backward_bf16_64.cu",
    "kernels/attention_warpgroup_queries.cuh": "kernels/attention_warpgroup_backward_bf16_64.cu",
    "kernels/attention_warpgroup_tiles.cuh": "kernels/attention_warpgroup_bf16_64.cu",
}
TABLE = "cuda kernels: every row of the parity table*"
SAME = "cuda attention: the same call*"
# What is run for an object, the quickest first: program, case, subcase.
RUNS = {
    "kernels/adamw.cu": [("cuda_kernels", TABLE, "sum_squares by seed 1")],
    "kernels/attention_bf16_64.cu": [("cuda_attention", SAME, "*"),
                                     ("cuda_attention", "*tensor cores*forward", "*by seed 1"),
                                     ("cuda_attention", "*tensor cores*gradients", "*by seed 1")],
    "kernels/attention_decode.cu": [("cuda_attention", "*decoding*", "*by seed 1")],
    "kernels/attention_plain.cu": [("cuda_attention", SAME, "*"),
                                   ("cuda_attention", "*every format, size*", "*by seed 1")],
    "kernels/attention_warpgroup_bf16_64.cu": [("cuda_attention", SAME, "*"),
                                               ("cuda_attention", "*warpgroups*forward", "*by seed 1")],
    "kernels/attention_warpgroup_backward_bf16_64.cu": [("cuda_attention", SAME, "*"),
                                                        ("cuda_attention", "*warpgroups*gradients", "*by seed 1")],
    "kernels/bias.cu": [("cuda_kernels", TABLE, "linear_backward by seed 1")],
    "kernels/cross_entropy.cu": [("cuda_kernels", TABLE, "cross_entropy_head by seed 1"),
                                 ("cuda_kernels", "cuda cross entropy*", "*by seed 1")],
    "kernels/embedding.cu": [("cuda_kernels", TABLE, "embedding_backward by seed 1"),
                             ("cuda_kernels", "cuda embedding*", "*by seed 1")],
    "kernels/norm.cu": [("cuda_kernels", TABLE, "*_norm by seed 1"),
                        ("cuda_kernels", "cuda norms: rows from*", "*by seed 1")],
    "kernels/norm_backward.cu": [("cuda_kernels", TABLE, "*_norm_backward by seed 1"),
                                 ("cuda_kernels", "cuda norms: rows from*", "*by seed 1")],
    "kernels/reduce.cu": [("cuda_kernels", TABLE, "*_norm_backward by seed 1")],
    "device/cuda_device.cpp": [("cuda_step", "a GPU's list*", "*"),
                               ("cuda_step", "a training step on GPUs is the host's*", "*"),
                               ("cuda_step", "a training step on GPUs takes*", "*")],
}

ORDERS = re.compile(r"mbarrier\.(?:arrive|try_wait|test_wait)|cp\.async\.(?:bulk\.)?(?:wait|commit)|\bfence\.|"
                    r"wgmma\.(?:fence|wait_group|commit_group)|\bbarrier\.|\bbar\.")
BUILT_IN = ["__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "cudaStreamWaitEvent",
            "wait_for_event"]  # the last one wraps the one before it
FUNCTION = re.compile(r"(\w+)\s*\((?:[^;{}()]|\([^()]*\))*\)\s*(?:const\s*|override\s*)*\{")
KINDS = ["shared race", "global race", "stream race", "uninitialised read", "out of bounds", "misaligned",
         "use after free", "free before last use", "bad free", "bad address in kernel", "host touches device memory",
         "wrong device", "divergent barrier", "warp collective", "cp.async", "mbarrier", "wgmma", "kernel deadlock",
         "stream deadlock", "proxy fence", "collective mismatch", "memcpy kind", "default stream", "blocking stream",
         "destroyed stream", "event", "launch", "cublasLt", "nccl"]


def without_comments(text):
    """The same text with spaces where comments are."""
    blank = lambda m: m.group() if m.group()[0] == '"' else re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.S)


def function_at(text, position):
    """The function in which a position lies."""
    names = [m.group(1) for m in FUNCTION.finditer(text, 0, position + 1)]
    names = [n for n in names if n not in ("if", "for", "while", "switch")]
    return names[-1] if names else "-"


def end_of_call(text, opening):
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    sys.exit("cuda_mutations: unbalanced parentheses")


@dataclasses.dataclass
class Place:
    file: str  # below cuda/
    function: str
    text: str  # with its number where the function has more of the same
    line: int
    begin: int
    end: int

    def name(self):
        return f"{self.file} | {self.function} | {self.text}"


def sources():
    return {str(p.relative_to(ROOT / "cuda")): p.read_text()
            for room in ROOMS for p in sorted((ROOT / "cuda" / room).iterdir())
            if p.suffix in (".cu", ".cuh", ".cpp", ".h")}


def wrappers(texts):
    """Names of the functions whose instructions order something."""
    found = set()
    for text in texts.values():
        for m in re.finditer(r"\basm\b", text):
            if ORDERS.search(text[m.start() : end_of_call(text, text.index("(", m.start()))]):
                found.add(function_at(text, m.start()))
    return found


def places():
    texts = {file: without_comments(text) for file, text in sources().items()}
    calls = BUILT_IN + sorted(wrappers(texts))
    pattern = re.compile(r"(?:\w+(?:\[[^\[\]]*\])?(?:\.|->))*\b(?:" + "|".join(calls) + r")(?:<\w*>)?\(")
    found = []
    for file, text in texts.items():
        seen = {}
        for m in pattern.finditer(text):
            if re.search(r"(?:void|bool|int)\s+$", text[: m.start()]):
                continue  # a definition
            end = end_of_call(text, m.end() - 1)
            function = function_at(text, m.start())
            words = " ".join(text[m.start() : end].split())
            number = seen[function, words] = seen.get((function, words), 0) + 1
            found.append(Place(file, function, words if number == 1 else f"{words} ({number})",
                               text.count("\n", 0, m.start()) + 1, m.start(), end))
    return found


def read_equal():
    """{name of a place: why nothing can notice its absence}"""
    rows = {}
    for line in EQUAL.read_text().splitlines():
        if line and not line.startswith("#"):
            *place, reason = line.split(" | ", 3)
            rows[" | ".join(place)] = reason
    return rows


class BuildFailed(Exception):
    pass


class Build:
    """Compiles and links as a build folder does, beside it."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch
        self.copy = scratch / "cuda"
        database = folder / "compile_commands.json"
        if not database.exists() or not (folder / "build.ninja").exists():
            sys.exit(f"cuda_mutations: {folder} is no build folder of CMake with Ninja")
        self.commands = {}
        for entry in json.loads(database.read_text()):
            words = shlex.split(entry["command"])
            self.commands[words[words.index("-o") + 1]] = words
        self.launcher = ["ccache"] if shutil.which("ccache") else []

    def run(self, words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildFailed(f"{shlex.join(map(str, words))}\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def compiled(self, output, to, mutated=False):
        if output not in self.commands:
            raise BuildFailed(f"{self.folder} does not make {output}")
        words = [w for w in self.commands[output] if not w.startswith("-Werror")]
        words[words.index("-o") + 1] = str(to)
        if mutated:
            words = [w.replace(f"{ROOT}/cuda", str(self.copy)) for w in words]
        to.parent.mkdir(parents=True, exist_ok=True)
        self.run((self.launcher if words[0] != "ccache" else []) + words)
        return to

    def linked(self, program, swapped):
        """The program with some objects in the place of others; objects that were not built are compiled."""
        *_, last = self.run(["ninja", "-t", "commands", program]).strip().splitlines()
        words = [w for w in shlex.split(last) if w not in (":", "&&")]
        for i, word in enumerate(words):
            if word in swapped:
                words[i] = str(swapped[word])
            elif word.endswith(".o") and not (self.folder / word).exists():
                made = self.scratch / "objects" / word.replace("/", "_")
                words[i] = str(made if made.exists() else self.compiled(word, made))
        target = self.scratch / program
        words[words.index("-o") + 1] = str(target)
        self.run(words)
        return target

    def copy_without(self, place):
        for file, text in sources().items():
            if place is not None and file == place.file:
                nothing = "cudaSuccess" if place.text.startswith("cuda") else "(void)0"
                text = text[: place.begin] + nothing + text[place.end :]
            target = self.copy / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_text() != text:
                target.write_text(text)


def said(program, case, subcase, limit):
    """(exit status or None for too long, output). The program leads a group of its own, which ends with it."""
    command = [program, f"-tc={case}", f"-sc={subcase}"]
    environment = dict(os.environ, ZEROTRAIN_SOURCE_DIR=str(ROOT))
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment,
                                 start_new_session=True)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = None
        output.seek(0)
        return status, output.read().decode(errors="replace")


def verdict(status, output):
    """What a run noticed; empty if nothing."""
    if status == 0:
        return ""
    noticed = [kind for kind in KINDS if re.search(rf"(?<![\w.]){re.escape(kind)}: ", output)]
    if re.search(r"ERROR: (?:CHECK|REQUIRE)", output) and not noticed:
        noticed.append("wrong value")
    if status is None:
        noticed.append("hang")
    elif status < 0:
        noticed.append(f"signal {-status}")
    return ", ".join(noticed) or "exit status"


def holder(place):
    return place.file if pathlib.Path(place.file).suffix in (".cu", ".cpp") else HOLDERS.get(place.file)


def check_untouched(build, program, case, subcase, limit):
    """The run must pass, and look at something, while nothing is taken away."""
    status, output = said(build.linked(program, {}), case, subcase, limit)
    looked = re.search(r"assertions: *(\d+)", output)
    if status != 0 or not looked or int(looked.group(1)) == 0:
        sys.exit(f"cuda_mutations: {program} -tc={case} -sc={subcase} as built: status {status}\n{output[-2000:]}")


def try_place(build, place, limit, checked):
    """What noticed that the place is gone; empty if nothing did. `checked` are the runs that pass untouched."""
    stem = holder(place)
    build.copy_without(place)
    output = f"{LIBRARY}{stem}.o"
    made = build.compiled(output, build.scratch / "mutated.o", mutated=True)
    for run in RUNS[stem]:
        if run not in checked:
            check_untouched(build, *run, limit)
            checked.add(run)
        program, case, subcase = run
        noticed = verdict(*said(build.linked(program, {output: made}), case, subcase, limit))
        if noticed:
            return noticed
    return ""


def chosen(args):
    stems = lambda p: {pathlib.Path(p.file).stem, pathlib.Path(holder(p) or "").stem}
    some = [p for p in places() if not args.only or stems(p) & set(args.only)]
    for p in some:
        if holder(p) not in RUNS:
            sys.exit(f"cuda_mutations: no test program is known for {p.name()}: add it to HOLDERS or RUNS")
    return some[: args.at_most]


def report(results, equal):
    """Prints the totals; whether all is as it should be."""
    bad = []
    for place, noticed in results:
        listed = place.name() in equal
        if noticed.startswith("does not build"):
            bad.append(f"{place.name()}: {noticed}")
        elif noticed and listed:
            bad.append(f"{place.name()} is listed as equal, but noticed: {noticed}")
        elif not noticed and not listed:
            bad.append(f"{place.name()} survived")
    everywhere = {p.name() for p in places()}
    bad += [f"{name} is listed as equal, but no place any more" for name in equal if name not in everywhere]
    totals = {}
    for _, noticed in results:
        key = noticed.split(",")[0].split("\n")[0] or "survived"
        totals[key] = totals.get(key, 0) + 1
    counted = sorted(totals.items(), key=lambda t: -t[1])
    print(f"{len(results)} places: " + ", ".join(f"{n} {key}" for key, n in counted))
    for line in bad:
        print("wrong:", line)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="a built folder")
    parser.add_argument("--only", action="append", metavar="STEM", help="places of this file, or tried in this object")
    parser.add_argument("--at-most", type=int, metavar="N")
    parser.add_argument("--scratch", type=pathlib.Path, help="where to work; kept (default: a temporary folder)")
    parser.add_argument("--limit", type=int, default=600, help="seconds after which a run counts as a hang")
    parser.add_argument("--list", action="store_true", help="print the places and stop")
    args = parser.parse_args()

    if args.list:
        some = chosen(args)
        for p in some:
            print(f"{p.name()}   (line {p.line}, in {holder(p)})")
        return print(len(some), "places")
    if args.build is None:
        parser.error("--build is missing")
    with tempfile.TemporaryDirectory(prefix="cuda_mutations.") as temporary:
        build = Build(args.build.resolve(), (args.scratch or pathlib.Path(temporary)).resolve())
        build.scratch.mkdir(parents=True, exist_ok=True)
        equal, results, checked = read_equal(), [], set()
        for place in chosen(args):
            begun = time.monotonic()
            try:
                noticed = try_place(build, place, args.limit, checked)
            except BuildFailed as error:
                noticed = f"does not build: {error}"
            results.append((place, noticed))
            shown = noticed or ("SURVIVED, listed" if place.name() in equal else "SURVIVED")
            print(f"{place.name()} | line {place.line} | {shown} | {time.monotonic() - begun:.0f} s", flush=True)
        sys.exit(0 if report(results, equal) and results else 1)


if __name__ == "__main__":
    main()
