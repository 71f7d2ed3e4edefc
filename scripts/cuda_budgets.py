#!/usr/bin/env python3
"""What the CUDA kernels cost, held against cuda/budgets.txt.

  scripts/cuda_budgets.py [--update] [--arch sm_80] ... cuda/kernels/*.cu
  scripts/cuda_budgets.py [--update] OBJECT ...        objects with PTX text in them (built for the emulated tests)

For every kernel: registers, bytes of stack and of spills, static shared memory (by `ptxas -v`), and how many
instructions of certain kinds its PTX text has. Registers, stack, shared memory may fall but not rise; spills are never
allowed; counts of instructions must be the same. `--update` writes what was found, for review. Rows of sources and
architectures that were not looked at stay as they are. Needs nvcc and ptxas of CUDA 13.0 in PATH or /usr/local/cuda.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "cuda" / "budgets.txt"
COSTS = ["registers", "stack", "spills", "shared"]
COUNTS = {
    "mma": re.compile(r"\bmma\.sync\."),
    "wgmma": re.compile(r"\bwgmma\.mma_async\."),
    "ldmatrix": re.compile(r"\bldmatrix\."),
    "cp.async": re.compile(r"\bcp\.async\.c[ag]\."),
    "bulk": re.compile(r"\bcp\.async\.bulk\."),
    "wide": re.compile(r"\b(?:ld|st)\.(?:global|shared)\S*\.v(?:4\.\w32|2\.\w64)\b"),  # 16 bytes at once
}
COLUMNS = COSTS + ["threads"] + list(COUNTS)


def tool(name):
    found = shutil.which(name) or f"/usr/local/cuda/bin/{name}"
    if not os.access(found, os.X_OK):
        sys.exit(f"cuda_budgets: {name} is not installed")
    return found


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cuda_budgets: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout + done.stderr


def texts_of(path, archs):
    """The PTX texts of a source, one an architecture, or those inside an object."""
    if path.suffix != ".cu":
        data = path.read_bytes()
        return [data[m.start() : data.index(b"\0", m.start())].decode() for m in re.finditer(rb"\.version \d", data)]
    command = [tool("nvcc"), "-std=c++20", "-O3", "-ptx", "-DFMT_USE_CONSTEXPR=1", f"-I{ROOT}/cuda", f"-I{ROOT}/src"]
    texts = []
    for arch in archs:
        with tempfile.TemporaryDirectory() as folder:  # nvcc has ptxas look at the file too, for sm_100
            file = pathlib.Path(folder) / "kernels.ptx"
            run(command + [f"-arch={arch}", "-o", str(file), str(path)])
            texts.append(file.read_text())
    return texts


def short(mangled):
    """zt::kernels::(anonymous namespace)::norm<float, 4>(...) -> norm<float, 4>"""
    text = run(["c++filt", mangled]).strip().replace("(anonymous namespace)::", "").replace("zt::kernels::", "")
    text = re.sub(r"\((?:int|bool|unsigned int)\)", "", text.removeprefix("void "))
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return text[:i]
    return text


def bodies(ptx):
    """{mangled name: its text}"""
    starts = [(m.start(), m.group(1)) for m in re.finditer(r"\.entry\s+(\w+)", ptx)]
    ends = [start for start, _ in starts[1:]] + [len(ptx)]
    return {name: ptx[start:end] for (start, name), end in zip(starts, ends)}


def resources(ptx, arch):
    """{mangled name: costs} by ptxas."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "kernels.ptx"
        file.write_text(ptx)
        said = run([tool("ptxas"), "-v", f"-arch={arch}", "-O3", "-o", f"{folder}/kernels.cubin", str(file)])
    if "Potential Performance Loss" in said:
        losses = re.findall(r".*Potential Performance Loss.*", said)
        sys.exit("cuda_budgets: ptxas says\n" + "\n".join(losses))
    found = {}
    for part in said.split("Compiling entry function '")[1:]:
        number = lambda pattern: sum(int(x) for x in re.findall(pattern, part))
        found[part[: part.index("'")]] = {
            "registers": number(r"Used (\d+) registers"),
            "stack": number(r"(\d+) bytes stack frame"),
            "spills": number(r"(\d+) bytes spill (?:stores|loads)"),
            "shared": number(r"(\d+) bytes smem"),
        }
    return found


def measure_text(ptx):
    """{(arch, kernel): row}"""
    arch = re.search(r"^\.target (\w+)", ptx, re.M).group(1)
    costs = resources(ptx, arch)
    rows = {}
    for mangled, body in bodies(ptx).items():
        threads = re.search(r"\.maxntid (\d+)", body)
        row = dict(costs[mangled], threads=int(threads.group(1)) if threads else 1024)
        row.update({name: len(pattern.findall(body)) for name, pattern in COUNTS.items()})
        rows[arch, short(mangled)] = row
    return rows


def read_budgets():
    rows = {}
    if BUDGETS.exists():
        for line in BUDGETS.read_text().splitlines():
            if line and not line.startswith("#"):
                arch, *numbers = line.split(maxsplit=len(COLUMNS) + 1)
                rows[arch, numbers.pop()] = dict(zip(COLUMNS, map(int, numbers)))
    return rows


def write_budgets(rows):
    head = ["# What each CUDA kernel may cost; written by scripts/cuda_budgets.py --update.",
            "# shared: static bytes; wide: accesses of 16 bytes; other counts are instructions in the PTX text.",
            "# " + " ".join(["arch"] + COLUMNS + ["kernel"])]
    widths = [max([len(str(row[c])) for row in rows.values()] + [1]) for c in COLUMNS]
    body = [" ".join([f"{arch:<7}"] + [str(row[c]).rjust(w) for c, w in zip(COLUMNS, widths)] + [kernel])
            for (arch, kernel), row in sorted(rows.items(), key=lambda item: (item[0][1], item[0][0]))]
    BUDGETS.write_text("\n".join(head + body) + "\n")


def complaints(found, allowed):
    """What is over budget, and what could be lowered."""
    bad, lower = [], []
    for key, row in sorted(found.items()):
        name = f"{key[1]} on {key[0]}"
        if row["spills"] > 0:
            bad.append(f"{name} spills {row['spills']} bytes")
        if key not in allowed:
            bad.append(f"{name} has no row in {BUDGETS.relative_to(ROOT)}")
            continue
        for column in COLUMNS:
            now, before = row[column], allowed[key][column]
            if now == before or (column == "spills" and now > 0):
                continue
            change = f"{name}: {column} {now}, budget {before}"
            (lower if column in COSTS and now < before else bad).append(change)
    return bad, lower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--arch", action="append", help="architecture of sources, sm_80 if none is named")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--update", action="store_true", help="write what was found to cuda/budgets.txt")
    args = parser.parse_args()

    found = {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for rows in pool.map(lambda path: [measure_text(t) for t in texts_of(path, args.arch or ["sm_80"])], args.files):
            for some in rows:
                found.update(some)
    allowed = read_budgets()
    if args.update:
        write_budgets({**allowed, **found})
        spilling = [f"{k} on {a}" for (a, k), row in found.items() if row["spills"] > 0]
        sys.exit(f"cuda_budgets: spills in {', '.join(spilling)}" if spilling else 0)
    bad, lower = complaints(found, allowed)
    for line in lower:
        print("could be lowered with --update:", line)
    print(f"{len(found)} kernels, {len(bad)} over budget")
    for line in bad:
        print("over budget:", line)
    sys.exit(1 if bad or not found else 0)


if __name__ == "__main__":
    main()
