#!/usr/bin/env python3
"""Prints how fast bench/tokenizers and the tokenizers package encode the same texts, each on one thread, in one go.

Every folder under FOLDERS that has tokenizer.json (gzip too) is measured in both, one that has only tokenizer.model in
zerotrain alone. MB are 10^6 bytes; "first" is the first pass over a text, "best" the fastest of --times passes. The
numbers of ids must agree; the status is 1 where they do not.
Usage: tokenizer_speed.py --bench build/release/bench/tokenizers --texts FILE... -- FOLDER...
"""

import argparse
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers  # noqa: E402  (reads the environment when it is loaded)


def copies(folder, into):
    """Folders to measure made from one of published files: by tokenizer.json, and by its SentencePiece model."""
    config = folder / "tokenizer_config.json"
    made = []
    for name, files in (("", [folder / "tokenizer.json", folder / "tokenizer.json.gz"]),
                        (".model", sorted(folder.glob("tokenizer.model*")))):
        source = next((file for file in files if file.exists()), None)
        if source is None or (name and source.read_bytes()[:64].split(b"\n")[0].endswith(b" 0")):  # tiktoken's lines
            continue
        target = into / (folder.name + name)
        target.mkdir()
        if config.exists():
            shutil.copy(config, target)
        if source.suffix == ".gz":
            (target / source.stem).write_bytes(gzip.decompress(source.read_bytes()))
        else:
            shutil.copy(source, target)
        made.append(target)
    return made


def lines_of(text):
    parts = text.split("\n")
    return [part for part in [p + "\n" for p in parts[:-1]] + parts[-1:] if part]


def peer(folder, texts, times):
    """(ids, first, best) in seconds."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True  # content: control tokens are ordinary text
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        ids = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
        seconds.append(time.perf_counter() - start)
    return ids, seconds[0], min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--texts", nargs="+", type=pathlib.Path, required=True)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    args = parser.parse_args()
    agree = True
    with tempfile.TemporaryDirectory() as scratch:
        folders = [made for folder in args.folders for made in copies(folder, pathlib.Path(scratch))]
        ours = subprocess.run([args.bench, "--tokenizers", ",".join(map(str, folders)), "--times", str(args.times),
                               "--texts", ",".join(map(str, args.texts))], capture_output=True, text=True, check=True)
        heading, *lines = ours.stdout.splitlines()
        print(f"{heading}   tokenizers {tokenizers.__version__}: first and best   times faster")
        by_name = {folder.name: folder for folder in folders}
        for line in lines:
            name, text, how, size, ids, _, best = line.split()
            if not (by_name[name] / "tokenizer.json").exists():
                print(line)
                continue
            path = next(path for path in args.texts if path.name == text)
            whole = path.read_bytes().decode()
            their_ids, first, their_best = peer(by_name[name], [whole] if how == "whole" else lines_of(whole),
                                                args.times)
            megabytes = int(size) / 1e6
            print(f"{line} {megabytes / first:26.2f} {megabytes / their_best:7.2f} {float(best) * their_best / megabytes:15.1f}",
                  flush=True)
            if their_ids != int(ids):
                agree = False
                print(f"  the package has {their_ids} ids", file=sys.stderr)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
