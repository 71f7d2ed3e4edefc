#!/usr/bin/env python3
"""Compares what the conformance kernels gave on the emulated GPU and on a real one.

Usage: compare_conformance.py EMULATED REAL

Both are files that `emulated_ptx_conformance` and `emulated_ptx_matrices` wrote because ZEROTRAIN_CONFORMANCE named them. One
line a case; exit status 1 where a case differs that must not: cases marked `exact` in any bit, cases marked `near`
(approximate functions) by more than 1e-4 of a value plus 1e-5, the bound of the tests themselves. Cases that only the emulated
GPU has run are told and count as neither: another GPU may lack their instructions (wgmma).
"""
import collections
import math
import struct
import sys


def read(path):
    """{(sameness, name): words of all its calls}"""
    cases = collections.defaultdict(list)
    with open(path) as lines:
        for head in lines:
            sameness, name = head.rstrip("\n").split(" ", 1)
            cases[sameness, name] += [int(word, 16) for word in next(lines).split()]
    return cases


def number(word):
    return struct.unpack("<f", struct.pack("<I", word))[0]


def far(a, b):
    x, y = number(a), number(b)
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) != math.isnan(y)
    if math.isinf(x) or math.isinf(y):
        return x != y
    return abs(x - y) > 1e-4 * abs(x) + 1e-5


def compare(name, sameness, emulated, real):
    """Prints the case's line; whether it is as it must be."""
    if not real:
        print(f"not run    {name}: {len(emulated)} words emulated, none real")
        return True
    if len(emulated) != len(real):
        print(f"DIFFERENT  {name}: {len(emulated)} words emulated, {len(real)} real")
        return False
    others = [i for i, (a, b) in enumerate(zip(emulated, real)) if a != b]
    bad = others if sameness == "exact" else [i for i in others if far(emulated[i], real[i])]
    print(f"{'DIFFERENT' if bad else 'same':9}  {name}: {len(emulated)} words, {len(others)} not the same bits ({sameness})")
    for i in bad[:8]:
        print(f"           word {i} (of 16: {i % 16}): emulated {emulated[i]:08x} real {real[i]:08x}")
    return not bad


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        emulated, real = read(sys.argv[1]), read(sys.argv[2])
    except OSError as e:
        sys.exit(f"cannot compare: {e}")
    if not emulated:
        sys.exit("no cases in " + sys.argv[1])
    if not real:
        sys.exit("no cases in " + sys.argv[2])
    good = True
    for key in sorted(set(emulated) | set(real)):
        good &= compare(key[1], key[0], emulated.get(key, []), real.get(key, []))
    sys.exit(0 if good else 1)


main()
