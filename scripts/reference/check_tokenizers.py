#!/usr/bin/env python3
"""Compares the ids of `zerotrain tokenize` with those of the tokenizers library, line by line, for whole folders.

The lines are odd Unicode, contractions, digits and spaces, control tokens spelled out, and random mixtures from a fixed
seed. A line that the program refuses (no token for a character) is counted, not compared. One summary line a folder
goes to stdout; the status is 1 when any line differs.
Usage: check_tokenizers.py --program build/zerotrain FOLDER...
"""

import argparse
import pathlib
import random
import subprocess
import sys

import tokenizers
import transformers

FIXED = [
    "Hello world", " leading", "trailing  ", "a  b   c", "I'LL I'll we've", "1234 5 67890", "\t\ttabs\tend", "x" * 300,
    "e\u0301 \u00e9 \uac00 \u1100\u1161", "\u4f60\u597d \u4e16\u754c", "\U0001f600\U0001f469\u200d\U0001f4bb",
    "\u180e a\u00a0b\u3000c", "\u2581x", "</s> <s> <|endoftext|> <|im_end|> <0x0A> <unk> <eos>", "\u0663\u0664 \u2167 \u00b2",
]
ALPHABET = "abcdefgh IJ'lsLSt  \t0123456789.,!?\u00e9\u0301\u00df\u017f\u6f22\u5b57\u30ab\ud55c\u00a0\u180e\u2003\U0001f600_-<>|[]/"


def lines(count):
    rng = random.Random(1)
    return FIXED + ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 40))) for _ in range(count)]


def ours(program, folder, texts):
    """Ids of each text, or None for all when the program refuses one."""
    run = subprocess.run([program, "tokenize", "--tokenizer", str(folder)], input="\n".join(texts) + "\n", text=True,
                         capture_output=True, check=False)
    if run.returncode != 0:
        return None
    return [[int(word) for word in line.split()] for line in run.stdout.split("\n")[: len(texts)]]


def known(tokenizer, text):
    """Whether the text's characters are all of the vocabulary, for tokenizers of characters."""
    return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text


def check(program, folder, count):
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.encode_special_tokens = True  # content: control tokens are ordinary text
    size = len(transformers.AutoTokenizer.from_pretrained(folder))
    texts = lines(count)
    refused = 0
    got = ours(program, folder, texts)
    if got is None:
        refused = len(texts)
        texts = [text for text in texts if known(reference, text)]
        refused -= len(texts)
        got = ours(program, folder, texts)
        if got is None:
            print(f"{folder}: refused as a whole", file=sys.stderr)
            return False
    wrong = 0
    for text, ids in zip(texts, got, strict=True):
        wanted = reference.encode(text, add_special_tokens=False).ids
        if wanted != ids:
            wrong += 1
            print(f"{folder}: {text!r}: {ids} instead of {wanted}", file=sys.stderr)
    print(f"{folder}: {size} tokens, {len(texts)} lines, {wrong} differ, {refused} left out")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--lines", type=int, default=1000)
    options = parser.parse_args()
    good = [check(options.program, folder, options.lines) for folder in options.folders]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
